"""What the papers' asymptotic words mean for a finite run, in one place for all claims (docs/claims.md)."""

#: a ≫ b: a is at least this many times b.
MUCH = 10.0
#: p = o(1) for a probability at one finite setting: p is at most this.
SMALL = 0.05
#: equality of two routes to one number in float64.
SAME = 1e-9
#: a certified margin of a built network counts from this on: far above its rounding.
PROVEN_MARGIN = 1e-6
#: a slope measured by differences of two values may exceed its bound by this share, because the values are
#: rounded.
ROUNDED_SLOPE = 1e-6
#: O(f) and Θ(f) at one finite setting: the ratio to f is at most this (and at least its inverse).
CONSTANT = 3.0
#: a time that a paper reads off its own figure ("nearly at epoch 150"): the ratio to it is at most this, and
#: at least its inverse.
NEARLY = 1.5
#: an exponent fitted over a finite sweep may miss its prediction by this much, because logarithms bend the
#: line.
BEND = 0.1
#: polylog(d) in a statement about a share of runs: (log d) to this power.
POLYLOG = 2
#: a statement about what is true when an event happens needs the event in at least this share of the runs.
USUAL = 0.5
#: a step smaller than this is rounding: what makes it stands still.
STILL = 1e-14
#: a network has learned its task if it is at least this share of the way from chance to perfect (the rule for
#: Θ)
LEARNED = 1 / CONSTANT
#: a radius is settled where its lower and its upper bound agree to this share of it
SETTLED = 1e-5
#: two minima of F_y over a ball are one where they differ by this share of F_y at its centre …
SAME_MINIMUM = 1e-8
#: … and this share is enough for a perturbation that is only trained on
TRAINED_GAP = 1e-3
#: the edge of a phase and the line that predicts it, constants included, differ by at most this factor in the
#: mean
PHASE_EDGE = 1.5

#: a bound that a proof calls o(1) says something from here on; where it is larger, its statement is VACUOUS
SPEAKS = 0.1
#: a radius agrees with a formula for it, and a bracket of it is narrow, where they differ by this share
PREDICTED = 0.03
#: an attack is as good as the exact minimum where its radius is at most this many times the exact one
AS_GOOD = 1.05
#: two directions are one where their cosine is at least this
ONE_DIRECTION = 0.98

# --- real images

#: networks are comparable to a paper's if they reach this share of its printed accuracies
PRINTED_SHARE_REACHED = 0.9
#: a reconstructed set holds a network's features if the network that it was made from reads this share of it
#: …
OWN_SET_READ = 0.9
#: … and the mean relative feature error is at most this
FEATURE_ERROR = 0.2
#: FA's E.1 (Figure 9) calls features with this cosine nearly orthogonal, and no larger one
NEARLY_ORTHOGONAL = 0.09
#: a head on embeddings has learned when its test accuracy is at least this part of the way from chance to 1
HEAD_LEARNED = 0.5
#: what a constant gradient gives for the loss change when the radius doubles
LINEAR_GROWTH = 2.0
#: a rate in N that has not fallen to this from N = 1 on promises nothing about N samples
RATE_FALLEN = 0.5
#: a stored distance and the same recomputed from the pair of images that attains it
RECOMPUTED = 1e-12
