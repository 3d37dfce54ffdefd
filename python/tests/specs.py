"""Specs to test: each registered method, with what can stand around it."""

import orthobatch


def _spec(method: orthobatch.tools.Method) -> str:
    """A spec of the method whose gradient central differences resolve."""
    return f"{method.name}(1e-2)" if method.arguments and method.arguments[0].name == "eps" else method.name


METHODS = [m.name for m in orthobatch.methods()]
SPECS = [_spec(m) for m in orthobatch.methods()]
SPECS += [s + "->W" for s in SPECS if not s.startswith("ZCA_spectral")] + [s + "->W->Gamma" for s in SPECS[:2]]
SPECS += ["ZCA(1e-2, group_size=2)", "LDL(1e-2, group_size=3)", "ZCAE(1e-2, q=0.5)", "PLDLP(1e-2, complete)"]
