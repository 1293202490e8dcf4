"""The dashboard in headless Chromium: it shows what is wrong, the figures and the epochs, and stays usable with 10,000 of
them. Arguments: HTTP_TARGET. Skipped (77) where there is no Chromium."""

import re
import shutil
import subprocess
import sys
import tempfile
import time

BROWSER = next((b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if b), None)


def fail(what, dom=""):
    sys.exit(f"dashboard_test: {what}\n{dom[-3000:]}")


def dom_of(url, seconds, *options):
    with tempfile.TemporaryDirectory() as profile:
        answer = subprocess.run([BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                                 f"--virtual-time-budget={seconds * 1000}", "--dump-dom", *options, url],
                                capture_output=True, text=True, timeout=90)
    if "</html>" not in answer.stdout:
        fail("no page: " + answer.stderr[-2000:])
    return answer.stdout


def main():
    if not BROWSER:
        print("dashboard_test: no Chromium here")
        sys.exit(77)
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        def tell(what):
            program.stdin.write(what + "\n")
            program.stdin.flush()
            return program.stdout.readline().strip()

        try:
            program.stdout.readline()
            port = tell("start 127.0.0.1:0").split()[1]
            tell("fill 10000")
            time.sleep(11)  # what is closed and holds objects is a leak from ten seconds on
            dom = dom_of(f"http://127.0.0.1:{port}/", 6)
            if f"process {program.pid}, live" not in dom:
                fail("it is not live", dom)
            if not re.search(r'class="finding warning".*?<code>phase "\d+" &lt;b&gt;</code> has held', dom, re.S):
                fail("it does not say what leaks", dom)
            if "of 10,000" not in dom:
                fail("the number of epochs is not shown", dom)
            rows = len(re.findall(r"<tr[^>]*>\s*<td class=\"label\"", dom))
            if not 10 <= rows <= 60:
                fail(f"{rows} rows exist; only those that are seen should", dom)
            if len(re.findall(r"<canvas", dom)) != 5:
                fail("not five charts", dom)
            if "largest</span>" not in dom or "oldest</span>" not in dom:
                fail("the largest and the oldest epoch do not stand out", dom)
            if "30,000" not in dom:
                fail("the live objects are not shown", dom)
            if 'data-theme="dark"' not in dom_of(f"http://127.0.0.1:{port}/", 2, "--blink-settings=preferredColorScheme=0"):
                fail("the system's dark theme is not followed")
        finally:
            program.kill()
    print("dashboard_test: 10000 epochs shown")


if __name__ == "__main__":
    main()
