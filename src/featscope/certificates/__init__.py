"""Certificates and their re-verification in plain NumPy: for a third party, by code that shares nothing with
what found them.

Nothing here imports laws, networks, attacks or experiments; a certificate is files and arithmetic.
"""
