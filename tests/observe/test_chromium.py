"""The browser that other tests look through: it sees what a page says, throws, asks for, draws and hands out."""

from __future__ import annotations

PAGE = """<!doctype html><title>small</title><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="connect-src 'none'">
<div id="host"></div><script>
  const canvas = document.createElement("canvas");
  host.attachShadow({mode: "open"}).append(canvas);
  console.warn("careful", 1);
  setTimeout(() => { canvas.getContext("2d").fillRect(0, 0, 5, 5); }, 50);
  function save() {
    const link = Object.assign(document.createElement("a"), {download: "a.csv"});
    link.href = URL.createObjectURL(new Blob(["a,b"]));
    link.click();
  }
</script>"""


def test_a_page_in_good_order(chromium, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(PAGE.replace('console.warn("careful", 1);', ""))
    with chromium.page(path, 390, dark=True) as page:
        page.wait_for_canvases(1)
        assert page.complaints == []
        assert page.requests == [path.as_uri()]
        assert page.evaluate("[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]") == [390, True]
        assert page.download("save()", "a.csv") == b"a,b"
        page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


def test_whatever_goes_wrong_is_seen(chromium, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    with chromium.page(path) as page:
        page.evaluate("setTimeout(() => { throw new Error('oh no') }); fetch('http://127.0.0.1:9/x').catch(() => 0)")
        page.evaluate("new Image().src = 'http://127.0.0.1:9/picture.png'; 0")
        page.wait_for("document.readyState")
        complaints = "\n".join(page.complaints)
        assert "careful 1" in complaints
        assert "oh no" in complaints
        assert "Content Security Policy" in complaints
        assert "http://127.0.0.1:9/picture.png" in page.requests
