"""docs/javascripts/iframe-worker.js: the worker of the site's search in pages that are read from a folder."""

from __future__ import annotations

import shutil

from pages import ROOT

SHIM = ROOT / "docs" / "javascripts" / "iframe-worker.js"
PAGE = """<!doctype html><title>search</title><script src="iframe-worker.js"></script><script>
  const worker = new Worker("worker.js")
  worker.addEventListener("message", event => document.title = event.data.sum)
  worker.postMessage([20, 22])
</script>"""
WORKER = "addEventListener('message', event => postMessage({sum: event.data[0] + event.data[1]}))"


def test_messages_come_and_go(chromium, tmp_path):
    shutil.copy(SHIM, tmp_path)
    (tmp_path / "worker.js").write_text(WORKER)
    (tmp_path / "index.html").write_text(PAGE)
    with chromium.page(tmp_path / "index.html") as page:
        assert page.wait_for("document.title === '42'")
        assert page.complaints == []
