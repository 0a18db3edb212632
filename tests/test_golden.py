"""The bits of ten fits are those in golden.json: a change that means to keep every number has kept them."""

import json
import platform

import pytest
from golden_fits import RECORD, differences, run, simd


@pytest.mark.skipif(
    platform.machine().lower() not in {"x86_64", "amd64"} or not {"AVX2", "X86_V3"} & set(simd()),  # V3: of NumPy 2.4
    reason="golden.json holds what an x86-64 processor with AVX2 gives",
)
def test_fits_have_the_bits_that_are_recorded():
    recorded, now = json.loads(RECORD.read_text()), run()
    with_, here = recorded.pop("made with"), now.pop("made with")
    found = "\n".join(differences(recorded, now))
    if found and with_ != here:  # other releases may add up in another order
        pytest.skip(f"recorded with {with_}, here {here}: other bits in\n{found}")
    assert not found, (
        f"these arrays of fits have other bits:\n{found}\nA change at rounding needs a line in CHANGELOG.md and a new "
        "record, by python tests/golden_fits.py --write; any other is a defect."
    )
