"""`featscope probe`: any network against the four theories.

One way of the data: a :class:`~featscope.probe.subject.Subject` (network, examples, threat) is looked at
(preflight), measured part by part, and diagnosed. A part is a module with

    measure(subject, share, keep) -> a frozen dataclass with `title` and `as_json()`

where ``share`` is its seconds of the budget and ``keep`` (:class:`~featscope.probe.keep.Keep`) stores what is
finished, so that a probe that was stopped goes on. Parts know nothing of each other.
"""
