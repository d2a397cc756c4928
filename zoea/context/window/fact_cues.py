"""Words that mark errors, decisions and constraints, in ten languages and three scripts without spaces.

In each list an entry is a word, the beginning (`decid*`) or end of a word, or words in a row. Everything is compared in
lower case.
"""

from __future__ import annotations

from msgspec import Struct

_FIRST_WIDE = "\u2e80"
"""From here on scripts have no spaces, so a word is found anywhere in a line."""


class FactCues(Struct, frozen=True):
    """The marks of one kind of line."""

    words: frozenset[str]
    stems: tuple[str, ...]
    ends: tuple[str, ...]
    phrases: tuple[str, ...]
    ascii_phrases: tuple[str, ...]

    def mark(self, words: frozenset[str], text: str) -> bool:
        """Return whether a line in lower case, with these words, has a mark."""
        phrases = self.ascii_phrases if text.isascii() else self.phrases  # most lines need a third of them
        if not self.words.isdisjoint(words) or any(phrase in text for phrase in phrases):
            return True
        return any(word.startswith(self.stems) or word.endswith(self.ends) for word in words)


def _read(entries: str) -> FactCues:
    cues = [" ".join(entry.split()) for entry in entries.split(",")]
    phrases = tuple(entry for entry in cues if " " in entry or entry[0] >= _FIRST_WIDE)
    stems = tuple(entry[:-1] for entry in cues if entry.endswith("*"))
    ends = tuple(entry[1:] for entry in cues if entry.startswith("*"))
    words = frozenset(entry for entry in cues if entry not in phrases and "*" not in entry)
    return FactCues(words, stems, ends, phrases, tuple(filter(str.isascii, phrases)))


ERRORS = _read("""
    error*, exception*, traceback*, segfault*, stacktrace*, panic*, crash*, corrupt*, fatal, fail, fails,
    failed, failing, failure, failures, refused, denied, timeout, timeouts, timed out, aborted, enoent, eacces,
    econn*, etimed*, eperm, exit code, exit status, exited with, status 4, status 5, http 4, http 5, errno,
    *error, *exception, fehler*, fehlgeschlagen, scheiter*, abgestürzt, erreur*, échou*, échec, errores, fallo,
    falló, fallido, falla, errore, errori, fallit*, erro, erros, falh*, fout, fouten, mislukt, ошиб*, сбой, не
    удалось, błąd*, błęd*, niepowodz*, hata, hatası, hatalı, başarısız, 错误, 失败, 异常, エラー, 失敗, 오류, 실패,
    报错, 故障, 出错, 崩溃, 超时, 拒绝, 损坏, 卡住, 无法, 没能, 断开, 丢失, 坏了, 失灵, 中断, 无效, 退出码,
    不匹配, 漏了
""")
DECISIONS = _read("""
    decid*, decision*, conclu*, chose, chosen, agreed, opted, approved, settled on, we will use, we'll use, we
    use, let's, let us, going with, go with, stick with, switch to, instead of, resolved to, plan is to,
    entscheid*, entschied*, beschlossen, beschluss, stattdessen, wir nehmen, wir verwenden, wir bleiben, décid*,
    choisi*, nous gardons, nous allons, hemos decidido, elegi*, acordado, usaremos, decis*, scelt*, useremo,
    escolh*, besloten, gekozen, решил*, решен*, решено, выбрали, zdecyd*, postanow*, karar*, 决定, 选择, 改用, 決定,
    決め, 採用, 결정, 선택, 定了, 敲定, 选用, 选定, 商定, 同意, 通过了, 拍板, 改成, 改为, 换成, 放弃, 不再,
    沿用, 采用, 弃用, 说好, 约定, 还是用
""")
CONSTRAINTS = _read("""
    must, mustn't, never, always, forbidden, required, requires, requirement*, shall, deadline*, mandatory,
    prohibit*, do not, don't, may not, cannot exceed, at most, at least, no more than, no less than, no fewer
    than, no later than, not allowed, only use, only if, only after, under no circumstances, without exception,
    without asking, limit is, limit of, limited to, muss, müssen, niemals, immer, höchstens, mindestens,
    verboten, darf nicht, darf nur, dürfen nicht, dürfen nur, doit, doivent, jamais, toujours, interdit*,
    obligatoire*, au plus, au maximum, ne pas, debe, deben, nunca, siempre, prohibido, no puede, no se puede,
    como máximo, deve, devono, mai, sempre, vietato, al massimo, proibido, no máximo, moet, moeten, nooit,
    altijd, mag niet, hoogstens, нельзя, никогда, всегда, запрещ*, долж*, не более, не менее, musi, muszą,
    nigdy, zawsze, zabroni*, nie wolno, co najwyżej, asla, zorunlu, yasak, her zaman, en fazla, 必须, 禁止, 不得, 不能,
    不要, 始终, 最多, 至少, 絶対, 必ず, てはいけ, てはなら, 以内, 반드시, 절대, 금지, 항상, 최대,
    务必, 严禁, 不准, 不许, 切勿, 不可, 只能, 只许, 不超过, 不少于, 不低于, 不高于, 一律, 仅限, 千万, 上限,
    下限, 截止, 绝不, 从不, 总是, 不应, 应当, 不宜, 禁用, 不允许
""")
