"""What is installed: what an import loads, the version's one place, the files of a distribution."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_import_loads_only_what_all_uses_need():
    listed = "import sys, sk_stormc; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert "sk_stormc.estimators.sne" in loaded
    for dear in ("sklearn.neighbors", "sklearn.decomposition", "matplotlib"):
        assert dear not in loaded, f"import sk_stormc loads {dear}"
