"""The scaled complementary error function and the inverse of the normal distribution's integral."""

from __future__ import annotations

import math

import torch

from .bessel import pointwise
from .formula import Term

aten = torch.ops.aten

# W. J. Cody, "Rational Chebyshev approximations for the error function", 1969: up to 0.46875, up to 4, beyond; leading
# coefficient first.
_NEAR = (
    1.85777706184603153e-1,
    3.16112374387056560,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_NEAR_BELOW = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_MIDDLE = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
_MIDDLE_BELOW = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)
_FAR = (
    1.63153871373020978e-2,
    3.05326634961232344e-1,
    3.60344899949804439e-1,
    1.25781726111229246e-1,
    1.60837851487422766e-2,
    6.58749161529837803e-4,
)
_FAR_BELOW = (
    1.0,
    2.56852019228982242,
    1.87295284992346725,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
)


@pointwise(aten.special_erfcx.default)
def erfcx(x: Term) -> Term:
    """exp(x^2) erfc(x). Below zero 2 exp(x^2) - erfcx(-x)."""
    size = abs(x)
    square = x * x
    growth = square.function("exp")
    near = growth * (1.0 - x * square.polynomial(_NEAR) / square.polynomial(_NEAR_BELOW))
    middle = size.polynomial(_MIDDLE) / size.polynomial(_MIDDLE_BELOW)
    inverse = 1.0 / square
    far = (1.0 / math.sqrt(math.pi) - inverse * inverse.polynomial(_FAR) / inverse.polynomial(_FAR_BELOW)) / size
    value = middle.chosen(size.is_("le", 4.0), far)
    value = (growth * 2.0 - value).chosen(x.is_("lt", 0.0), value)
    return near.chosen(size.is_("le", 0.46875), value)


# Cephes: y between exp(-2) and 1 - exp(-2); sqrt(-2 log y) up to 8; beyond. Leading coefficient first.
_NDTRI_CENTRE = (
    -59.96335010141079,
    98.00107541859997,
    -56.67628574690703,
    13.931260938727968,
    -1.2391658386738125,
)
_NDTRI_CENTRE_BELOW = (
    1.0,
    1.9544885833814176,
    4.676279128988815,
    86.36024213908905,
    -225.46268785411937,
    200.26021238006066,
    -82.03722561683334,
    15.90562251262117,
    -1.1833162112133,
)
_NDTRI_OUTER = (
    4.0554489230596245,
    31.525109459989388,
    57.16281922464213,
    44.08050738932008,
    14.684956192885803,
    2.1866330685079025,
    -0.1402560791713545,
    -0.03504246268278482,
    -0.0008574567851546854,
)
_NDTRI_OUTER_BELOW = (
    1.0,
    15.779988325646675,
    45.39076351288792,
    41.3172038254672,
    15.04253856929075,
    2.504649462083094,
    -0.14218292285478779,
    -0.03808064076915783,
    -0.0009332594808954574,
)
_NDTRI_TAIL = (
    3.2377489177694603,
    6.915228890689842,
    3.9388102529247444,
    1.3330346081580755,
    0.20148538954917908,
    0.012371663481782003,
    0.00030158155350823543,
    2.6580697468673755e-06,
    6.239745391849833e-09,
)
_NDTRI_TAIL_BELOW = (
    1.0,
    6.02427039364742,
    3.6798356385616087,
    1.3770209948908132,
    0.21623699359449663,
    0.013420400608854318,
    0.00032801446468212774,
    2.8924786474538068e-06,
    6.790194080099813e-09,
)
_NDTRI_EDGE = math.exp(-2.0)


@pointwise(aten.special_ndtri.default)
def ndtri(y: Term) -> Term:
    """Where the integral of the standard normal distribution is y; infinite at 0 and 1."""
    upper = y.is_("gt", 1.0 - _NDTRI_EDGE)
    tail = (1.0 - y).chosen(upper, y)
    centred = y - 0.5
    square = centred * centred
    centre = square.polynomial(_NDTRI_CENTRE) / square.polynomial(_NDTRI_CENTRE_BELOW)
    centre = (centred + centred * (square * centre)) * math.sqrt(2.0 * math.pi)
    root = (tail.function("log") * -2.0).function("sqrt")
    inverse = 1.0 / root
    outer = inverse * inverse.polynomial(_NDTRI_OUTER) / inverse.polynomial(_NDTRI_OUTER_BELOW)
    far = inverse * inverse.polynomial(_NDTRI_TAIL) / inverse.polynomial(_NDTRI_TAIL_BELOW)
    size = root - root.function("log") / root - outer.chosen(root.is_("lt", 8.0), far)
    value = centre.chosen(tail.is_("gt", _NDTRI_EDGE), size.chosen(upper, -size))
    value = value.instead(y.is_("eq", 0.0), -math.inf).instead(y.is_("eq", 1.0), math.inf)
    return value.instead(y.is_("lt", 0.0), math.nan).instead(y.is_("gt", 1.0), math.nan)
