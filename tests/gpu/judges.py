"""What the end of a command means: (status, what it said). Statuses: ok, none (passed, and not on the device), warned,
skipped, FAILED."""
import json
import pathlib
import re

SKIPPED, SHORT = 77, 75


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].replace("\t", " ")[:200] if lines else "it said nothing"


def plain(code, text, command):
    del command
    if code == 0:
        return "ok", last_line(text)
    if code in (SKIPPED, SHORT):
        return "skipped" if code == SKIPPED else "short", last_line(text)
    return "FAILED", f"exit code {code}: {last_line(text)}"


def case(code, text, command):
    """Green is not enough: the binary must say that the case ran on the device."""
    ran = re.search(r"^cuda: (\d+) of (\d+) cases run", text, re.M)
    if code == 0 and ran and int(ran[2]) == 1:
        return ("ok" if int(ran[1]) == 1 else "none"), last_line(text)
    wrong = [line for line in text.splitlines() if re.search(r"ERROR|FATAL|error|threw|terminate", line)]
    return plain(code or 1, "\n".join(wrong[:1]) or text, command)


def gradients(code, text, command):
    """Rounding decides in more places at another size: up to twice the bounds is a warning."""
    if code == 0:
        return plain(code, text, command)
    try:
        found = json.loads(pathlib.Path(command.split("--json ")[1].split()[0]).read_text())
        far = max(gradient["distance"] for gradient in found["gradients"])
    except (OSError, ValueError, KeyError, IndexError):
        return plain(code, text, command)
    if far <= 2 * found["distance_tolerance"]:
        return "warned", last_line(text)
    return plain(code, text, command)


def sanitizer(code, text, command):
    """Without a summary and without the tests' own one, the tool was refused the device."""
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY.*", text)
    if code == 0 and summary and re.search(r"^cuda: [1-9]\d* of", text, re.M):
        return "ok", summary[-1]
    if code == 0 and summary:
        return "FAILED", "no case ran on CUDA under the sanitizer"
    if not summary and "[doctest]" not in text:
        return "skipped", "this machine refuses it: " + last_line(text)
    return plain(code or 1, summary[-1] if summary else text, command)


def ncu(code, text, command):
    """Its figures are in its log; it needs counters that many machines keep to themselves."""
    try:
        log = pathlib.Path(command.split("--log-file ")[1].split()[0]).read_text()
    except (OSError, IndexError):
        log = ""
    refused = [line for line in (log + "\n" + text).splitlines() if line.startswith("==ERROR==")]
    if refused:
        return "skipped", "this machine refuses it: " + refused[0].removeprefix("==ERROR==").strip()[:200]
    if code == 0 and "gpu__time_duration" not in log:
        return "FAILED", "ncu measured no kernel"
    return plain(code, text, command)


JUDGES = {judge.__name__: judge for judge in (plain, case, gradients, sanitizer, ncu)}
