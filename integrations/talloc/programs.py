"""notmuch as test.py and bench.py run it: on mails that are made up, with a library preloaded or none."""

import email.message
import os
import pathlib
import random
import re
import shutil
import subprocess

CONFIGURATION = """[database]
path={mail}
[user]
name=Reader
primary_email=reader@example.org
[new]
tags=unread;inbox
[search]
exclude_tags=deleted;spam
[maildir]
synchronize_flags=false
"""
QUESTIONS = [["search", "*"], ["search", "--sort=oldest-first", "tag:inbox"], ["search", "--output=files", "subject:report"],
             ["search", "--output=messages", "from:person7"], ["search", "--format=json", "word17 or word3"],
             ["search", "--format=sexp", "date:2024..2025"], ["count", "*"], ["count", "--output=threads", "*"], ["address", "from:person*"],
             ["address", "--output=recipients", "--deduplicate=address", "*"], ["show", "--format=json", "word5"],
             ["show", "--format=raw", "id:1.mail@example.org"], ["show", "--entire-thread=true", "id:2.mail@example.org"],
             ["reply", "id:3.mail@example.org"], ["tag", "+seen", "-unread", "--", "word2"], ["tag", "+thread", "--", "thread:{id:4.mail@example.org}"],
             ["search", "--output=tags", "*"], ["reindex", "word9"], ["dump"], ["config", "list"], ["search", "((("], ["no-such-command"]]


def environment(preload, root, extra=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TSLAB_", "LD_", "NOTMUCH", "XDG", "MAIL"))}
    own = {"HOME": str(root), "NOTMUCH_CONFIG": str(root / "config"), "TZ": "UTC", "LC_ALL": "C.UTF-8", "EMAIL": "reader@example.org"}
    return {**clean, **own, **({"LD_PRELOAD": preload} if preload else {}), **(extra or {})}


def missing():
    return [name for name in ("notmuch",) if not shutil.which(name)]


def mail(number, chance):
    one = email.message.EmailMessage()
    one["From"] = "Person %d <person%d@example.org>" % (number % 23, number % 23)
    one["To"] = ", ".join("Reader %d <reader%d@example.org>" % (n, n) for n in range(number % 5 + 1))
    one["Subject"] = ("Re: " if number % 4 else "") + chance.choice(("report", "gr\u00fc\u00dfe", "plan", "\u65e5\u672c\u8a9e")) + " %d" % (number // 4)
    one["Date"] = "Tue, %02d Mar %d %02d:%02d:00 +0000" % (number % 28 + 1, 2020 + number % 6, number % 24, number % 60)
    one["Message-ID"] = "<%d.mail@example.org>" % number
    if number % 4:
        one["In-Reply-To"] = "<%d.mail@example.org>" % (number - 1)
        one["References"] = " ".join("<%d.mail@example.org>" % n for n in range(number // 4 * 4, number))
    one.set_content("\n".join(" ".join("word%d" % chance.randrange(2000) for _ in range(12)) for _ in range(chance.randrange(2, 60))))
    if number % 15 == 0:
        one.add_alternative("<html><body><p>word1 <b>word2</b></p></body></html>", subtype="html")
    if number % 10 == 0:
        one.add_attachment(bytes(chance.randrange(256) for _ in range(2000)), maintype="application", subtype="octet-stream", filename="a.bin")
    return one.as_bytes()


def mails(root, count):
    """A folder with mails, always the same."""
    chance = random.Random(7)
    for number in range(count):
        folder = root / "mail" / ("list%d" % (number % 7)) / "cur"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("%d:2,S" % number)).write_bytes(mail(number, chance))
    (root / "config").write_text(CONFIGURATION.format(mail=root / "mail"))


def forget(root):
    """The next `notmuch new` begins with nothing."""
    shutil.rmtree(root / "mail/.notmuch", ignore_errors=True)


def notmuch(root, preload, arguments, extra=None):
    done = subprocess.run(["notmuch", *arguments], env=environment(preload, root, extra), capture_output=True, text=True, errors="replace",
                          check=False, timeout=600)
    return "%d %s%s" % (done.returncode, done.stdout, done.stderr)


def conversation(root, preload, extra=None):
    """What notmuch says while it indexes the mails, and then to questions. Times that it took are left out."""
    forget(root)
    said = [re.sub(r" in .*?\.\)\.", "", notmuch(root, preload, ["new"], extra))]
    said += [notmuch(root, preload, arguments, extra) for arguments in QUESTIONS]
    extra_mail = pathlib.Path(root / "mail/list0/cur/more:2,S")
    extra_mail.write_bytes(mail(99999, random.Random(1)))
    said.append(notmuch(root, preload, ["new", "--quiet"], extra))
    extra_mail.unlink()
    said.append(notmuch(root, preload, ["new", "--quiet"], extra))
    said.append(notmuch(root, preload, ["dump", "--format=batch-tag"], extra))
    return said
