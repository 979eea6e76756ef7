"""Makes camb.json: linear theory by CAMB (pip install camb), which tests/unit/test_cosmology_theory.cpp compares with.

Usage: python3 camb_reference.py > camb.json
"""
import json

import camb
import numpy as np

OMEGA_B = 0.045
REDSHIFTS = [0.0, 0.5, 1.5, 3.0]
# The middle of the parameters' ranges and corners of them: Omega_m, n_s, H_0.
CASES = [(0.30, 0.96, 70.0), (0.27, 0.864, 63.0), (0.33, 1.056, 77.0), (0.27, 1.056, 77.0), (0.33, 0.864, 63.0)]


def reference(omega_m, n_s, hubble):
    h = hubble / 100
    settings = camb.CAMBparams()
    settings.set_cosmology(H0=hubble, ombh2=OMEGA_B * h * h, omch2=(omega_m - OMEGA_B) * h * h, mnu=0, omk=0,
                           TCMB=2.7255)
    settings.InitPower.set_params(As=2e-9, ns=n_s)
    settings.set_matter_power(redshifts=REDSHIFTS[::-1], kmax=20)
    results = camb.get_results(settings)
    power = results.get_matter_power_interpolator(nonlinear=False)
    k = np.geomspace(1e-3, 5, 40)
    today = power.P(0, k)
    transfer = np.sqrt(today / k**n_s)
    large = 0.05  # h/Mpc: far inside the horizon
    return {
        "omega_m": omega_m, "n_s": n_s, "hubble": hubble, "omega_b": OMEGA_B,
        "sigma_8": round(float(results.get_sigma8_0()), 6),
        "k": [float(f"{x:.6g}") for x in k],
        "power": [float(f"{x:.5g}") for x in today],
        "transfer": [float(f"{x:.5g}") for x in transfer / transfer[0]],
        "redshifts": REDSHIFTS,
        "growth": [round(float(np.sqrt(power.P(z, large) / power.P(0, large))), 5) for z in REDSHIFTS],
    }


cases = ",\n".join(json.dumps(reference(*case)) for case in CASES)
print(f'{{"camb": {json.dumps(camb.__version__)}, "cases": [\n{cases}\n]}}')
