"""The curvature of minibatches, from which automatic learning rates are set. Its oracle
calls are counted."""

import math

import numpy as np

from sk_stormc.engine.steps import keep_in_domain

# Minibatches whose curvature is estimated. With fewer, a learning rate would depend on
# which ones are drawn.
CURVATURE_BATCHES = 16


def curvature(oracle, x, size):
    """The curvature L: the root mean square of `curvatures`. It is 0 for a linear
    objective."""
    return math.sqrt(np.mean(np.square(curvatures(oracle, x, size))))


def curvatures(oracle, x, size):
    """Largest eigenvalues of preconditioner @ Hessian of 16 minibatches.

    They are computed by power iterations on finite differences of the minibatch
    gradient. The first vector for a batch is the last vector for the previous batch. g
    and f use independent batches. There is one minibatch if batches are full.
    """
    problem, preconditioner = oracle.problem, oracle.preconditioner.at(x, 0)
    v = oracle.rng.standard_normal(x.size).astype(x.dtype)
    v, start_v = preconditioner.apply(v), v
    # of length 1 in the norm of the preconditioner's inverse
    v = v / math.sqrt(float(start_v @ v))
    rounding = math.sqrt(np.finfo(x.dtype).eps)
    h = rounding * (1 + float(np.linalg.norm(x))) / float(np.linalg.norm(v))
    eigenvalues = []
    for _ in range(1 if oracle.is_full(size) else CURVATURE_BATCHES):
        inner, outer = oracle.draw("inner", size[0]), oracle.draw("outer", size[2])
        slope = oracle.draw_jacobian(size[1], inner)

        def gradient(x, inner=inner, outer=outer, slope=slope):
            u = keep_in_domain(problem, oracle.inner(x, inner), None)
            return oracle.gradient(x, u, oracle.jacobian(x, slope), outer)

        F = gradient(x)
        length = math.sqrt(float(F @ preconditioner.apply(F)))
        top = 0.0
        for k in range(1 + 6):  # six power iterations, after one that determines h
            w = (gradient(x + h * v) - F) / h
            v_new = preconditioner.apply(w)
            top = math.sqrt(max(float(w @ v_new), 0.0))
            if not (math.isfinite(top) and top > 0):
                break
            if k or not length:
                v = v_new / top
            # The next step changes F by a thousandth, in any unit. It changes x by more
            # than rounding, because a gradient that is constant near x may change
            # farther away, and by no more than the length of x.
            longest = float(np.linalg.norm(x) / np.linalg.norm(v)) or math.inf
            least = rounding * longest if longest < math.inf else 0.0
            step = max(min(1e-3 * length / top, longest), least)
            if step > 1e-7 * h:  # otherwise F is a rounding error
                h = step
        eigenvalues.append(top)
    return eigenvalues
