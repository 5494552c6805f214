"""The package's own functions under the lab's signatures."""

from types import SimpleNamespace
from unittest.mock import patch

from flash41 import mhc


def sinkhorn(logits, rounds, eps):
    return mhc.sinkhorn(logits.unsqueeze(0), rounds, eps)[0]


def site_coefficients(streams, fn, base, scale, norm_eps, hc_eps):
    """`coefficients` balances at once; here the logits pass unchanged where it calls `sinkhorn`."""
    config = SimpleNamespace(hc_mult=streams.shape[-2], rms_norm_eps=norm_eps, hc_eps=hc_eps, hc_sinkhorn_iters=20)
    with patch.object(mhc, "sinkhorn", lambda logits, rounds, eps: logits):
        return mhc.coefficients(streams, fn, base, scale, config)


def collapse(streams, a):
    return mhc.collapse(streams, a)


def write_back(streams, y, c, b):
    return mhc.write_back(streams, y, c, b)
