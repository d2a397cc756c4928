"""Redaction replaces secrets and personal data, and nothing else."""

from __future__ import annotations

import os
import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.text import redact
from zoea.text.redact import secret_patterns
from zoea.text.redact.personal_data import luhn

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA7bq\n-----END RSA PRIVATE KEY-----"


@walk_cases(
    ("text", "redacted"),
    [
        ("key sk-proj-abc123DEF456ghi789 end", "key [REDACTED_API_KEY] end"),
        ("sk-abcdefghijklmnopqrstuvwxyz", "[REDACTED_API_KEY]"),
        ("sk-ant-api03-Zx9_q-77aa", "[REDACTED_API_KEY]"),
        ("AKIAIOSFODNN7EXAMPLE", "[REDACTED_API_KEY]"),
        ("dop_v1_" + "0a" * 32, "[REDACTED_API_KEY]"),
        ("tgp_v1_" + "a1B2" * 10, "[REDACTED_API_KEY]"),
        ("shpat_" + "0a" * 16, "[REDACTED_API_KEY]"),
        ("hvs." + "a1B2" * 8, "[REDACTED_API_KEY]"),
        ("AGE-SECRET-KEY-1" + "QPZRY9X8" * 7, "[REDACTED_API_KEY]"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[REDACTED_API_KEY]"),
        ("xoxb-1234567890-abcdef", "[REDACTED_API_KEY]"),
        ("AIza" + "Sy0123456789-abcdefghijklmnopqrstuv_"[:35], "[REDACTED_API_KEY]"),
        (f"cookie={JWT}; path", "cookie=[REDACTED_TOKEN]; path"),
        (f"a\n{PEM}\nb", "a\n[REDACTED_PRIVATE_KEY]\nb"),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer [REDACTED_TOKEN]"),
        ('"authorization": "Basic dXNlcjpwYXNz"', '"authorization": "Basic [REDACTED_TOKEN]"'),
        ("Cookie: sid=a1b2c3d4e5; lang=de", "Cookie: sid=[REDACTED_TOKEN]; lang=de"),
        ("cookie: a=Zk3-9x_77; b.c=%7B%22id%22%3A7%7D", "cookie: a=[REDACTED_TOKEN]; b.c=[REDACTED_TOKEN]"),
        (
            'Set-Cookie: __Host-s="a1b2c3d4"; Path=/account; Max-Age=3600000; HttpOnly',
            'Set-Cookie: __Host-s="[REDACTED_TOKEN]"; Path=/account; Max-Age=3600000; HttpOnly',
        ),
        ('{"cookie": "session=a1b2c3d4", "x": 1}', '{"cookie": "session=[REDACTED_TOKEN]", "x": 1}'),
        (r"{\"Set-Cookie\": \"s=a1b2c3d4\"}", r"{\"Set-Cookie\": \"s=[REDACTED_TOKEN]\"}"),
        ("curl -H 'Cookie: s=a1b2c3d4==' x=123456", "curl -H 'Cookie: s=[REDACTED_TOKEN]' x=123456"),
        ("curl -b s=a1b2c3d4 https://x.example", "curl -b s=[REDACTED_TOKEN] https://x.example"),
        ("curl -sS -b 'a=Zk3-9x_77; l=de' x", "curl -sS -b 'a=[REDACTED_TOKEN]; l=de' x"),
        ("curl https://x.example -bs=a1b2c3d4", "curl https://x.example -bs=[REDACTED_TOKEN]"),
        ("pass\u200bword: hunter2222", "password: [REDACTED_PASSWORD]"),
        ("api\u2060_key = 'Zk3-9x_77aa'", "api_key = '[REDACTED_API_KEY]'"),
        ("my pass\u00adword is hunter2222", "my password is [REDACTED_PASSWORD]"),
        ("sk-pro\u200bj-Abcdefghijkl0123456789", "[REDACTED_API_KEY]"),
        ("curl --cookie s=a1b2c3d4 https://x.example", "curl --cookie s=[REDACTED_TOKEN] https://x.example"),
        ("use bearer 7f3a9c21 here", "use bearer [REDACTED_TOKEN] here"),
        ("postgres://app:hunter2@db/prod", "postgres://app:[REDACTED_PASSWORD]@db/prod"),
        ("password = hunter2", "password = [REDACTED_PASSWORD]"),
        ("passwordConfirmation=hunter2", "passwordConfirmation=[REDACTED_PASSWORD]"),
        ("new_password2: hunter2", "new_password2: [REDACTED_PASSWORD]"),
        ("wifi_psk=hunter2 passkey=hunter2", "wifi_psk=[REDACTED_PASSWORD] passkey=[REDACTED_PASSWORD]"),
        ("password: 123456, next", "password: [REDACTED_PASSWORD], next"),
        ('{"loginPassword": "a \\"b\\" c", "x": 1}', '{"loginPassword": "[REDACTED_PASSWORD]", "x": 1}'),
        (r"{\"password\": \"p w\", \"x\": 1}", r"{\"password\": \"[REDACTED_PASSWORD]\", \"x\": 1}"),
        ("OPENAI_API_KEY=abcdef123", "OPENAI_API_KEY=[REDACTED_API_KEY]"),
        ("X-Api-Key: abcdef123", "X-Api-Key: [REDACTED_API_KEY]"),
        ("client_secret='s3cr3t!'", "client_secret='[REDACTED_SECRET]'"),
        ("access_token => abcdefgh", "access_token => [REDACTED_TOKEN]"),
        ("login --password hunter2 --user x", "login --password [REDACTED_PASSWORD] --user x"),
        ("run --api-key abcdef123", "run --api-key [REDACTED_API_KEY]"),
        ("password = 'unclosed", "password = '[REDACTED_PASSWORD]"),
    ],
)
def test_keys_tokens_and_passwords_become_labels(text: str, redacted: str) -> None:
    assert redact.redact_secrets(text) == redacted
    assert redact.redact_all(text) == redacted


@walk_cases(
    ("text", "redacted"),
    [
        ("write to ada.l+x@mail.example.co.uk.", "write to [REDACTED_EMAIL]."),
        ("jörg@münchen.example", "[REDACTED_EMAIL]"),
        ("call +1 (555) 123-4567 now", "call [REDACTED_PHONE] now"),
        ("call +49 (0) 171 2345678.", "call [REDACTED_PHONE]."),
        ("+442079460958", "[REDACTED_PHONE]"),
        ("(555) 123-4567", "[REDACTED_PHONE]"),
        ("555-123-4567", "[REDACTED_PHONE]"),
        ("555.123.4567", "[REDACTED_PHONE]"),
        ("020 7946 0958", "[REDACTED_PHONE]"),
        ("Tel. 5551234", "Tel. [REDACTED_PHONE]"),
        ("ssn 123-45-6789", "ssn [REDACTED_NATIONAL_ID]"),
        ("QQ 12 34 56 C", "QQ 12 34 56 C"),
        ("AB 12 34 56 C", "[REDACTED_NATIONAL_ID]"),
        ("RSSMRA85T10A562S", "[REDACTED_NATIONAL_ID]"),
        ("12345678Z", "[REDACTED_NATIONAL_ID]"),
        ("X1234567L", "[REDACTED_NATIONAL_ID]"),
        ("11010519491231002X", "[REDACTED_NATIONAL_ID]"),
        ("4111 1111 1111 1111 12/27", "[REDACTED_CARD] 12/27"),
        ("card-4111-1111-1111-1111", "card-[REDACTED_CARD]"),
        ("378282246310005", "[REDACTED_CARD]"),
        ("3782 822463 10005", "[REDACTED_CARD]"),
        ("http://192.168.1.20:8080/x", "http://[REDACTED_IP]:8080/x"),
        ("from 10.0.0.1.", "from [REDACTED_IP]."),
        ("2001:db8::8a2e:370:7334", "[REDACTED_IP]"),
        ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "[REDACTED_IP]"),
        ("卡号4111111111111111已绑定", "卡号[REDACTED_CARD]已绑定"),
        ("服务器192.168.10.5挂了", "服务器[REDACTED_IP]挂了"),
        ("地址是2001:db8::8a2e:370:7334吗", "地址是[REDACTED_IP]吗"),
        ("身份证11010519491231002X在", "身份证[REDACTED_NATIONAL_ID]在"),
        ("账户DE89370400440532013000到账", "账户[REDACTED_IBAN]到账"),
        ("请打+8613912345678，谢谢", "请打[REDACTED_PHONE]，谢谢"),
        ("手机号13912345678已记", "手机号[REDACTED_PHONE]已记"),
        ("携帯番号は09012345678です", "携帯番号は[REDACTED_PHONE]です"),
        ("请发邮件给李雷lilei@example.com，谢谢", "请发邮件给李雷[REDACTED_EMAIL]，谢谢"),
        ("zhang@example.com的邮箱", "[REDACTED_EMAIL]的邮箱"),
        ("张三@例子.公司", "[REDACTED_EMAIL]"),
    ],
)
def test_personal_data_is_redacted_in_exports_only(text: str, redacted: str) -> None:
    assert redact.redact_all(text) == redacted
    assert redact.redact_secrets(text) == text


@walk_cases(
    "text",
    [
        "2026-11-21T22:30:00+00:00 and 21.11.2026, 12:34:56.789, 1763763763000000, 2024-01-15",
        "550e8400-e29b-41d4-a716-446655440000 and 12345678-1234-1234-1234-123456789012",
        "d41d8cd98f00b204e9800998ecf8427e sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "v1.2.3.4, ==1.2.3.4, version 10.0.19041.1, Chrome/120.0.0.0, 3.11.7, 1.2.3.4-beta",
        "软件版本1.2.3.4已装, 订单20931号, 共13912345678字节, バージョン1.2.3.4",
        "lines 100-200, 1,234,567 of 4111111111111112, 200 300 4000, 3.14159265358979",
        "std::fs::read, a[::2], face::add, 12:34:56:78, 2001::1::2, @@ -10,7 +10,7 @@, @app.route, foo@1.2.3",
        "max_tokens = 100000, total_tokens: 50,000, tokens: 12, token: 41, budget_token=123456789",
        "password: str, password=None, token = os.environ['X'], api_key: ${API_KEY}, password: Optional, secret: true",
        "the bearer token of sk-learn-contrib, task-force-planning-document, bearer authentication",
        "12345678A, 110105194912310021, 000-12-3456, AKIA is a prefix, eyJ is another",
        "ctx-4f2a91, c812, [REDACTED_EMAIL], 0001-0200, 123456789012345678901234567890",
    ],
)
def test_dates_ids_hashes_versions_numbers_and_code_stay(text: str) -> None:
    assert redact.redact_all(text) == text


@walk_cases("pattern", ["4111111111111112", "4222222222223", "5500005555555550"])
def test_a_number_with_a_wrong_check_digit_is_not_a_card(pattern: str) -> None:
    assert not luhn(pattern)
    assert redact.redact_all(pattern) == pattern


HOSTILE = [
    "a", "1", "-", " ", "@", "a@", "a.", "eyJ", "eyJaaaaaaaa.", "-eyJaaaaaaa", "sk-", "sk_live_", "1 ", "1-", "1.",
    "1:", "+1", "+1 ", "+111111111111111111111111111111111111 ", "(555) ", "::", "a:", "2001:", "://", "://a:",
    "password", "password=", 'password="', "password='\\", "password = '\\\\\\\\", "token:", "bearer ",
    "authorization: ", "--a-a-",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "4111 ", "4111111111111111", "tel ", "tel: 1 ", "0171 ", "AB12",
    "Authorization: Bearer a", "AKIA", "ABCDEF12", "a@a.", "a@a-", "1.1.1.", "é@é.", "[REDACTED_",
    "漢", "漢@", "漢1", "漢a@", "电话1",
]  # fmt: skip


SIZE = 200_000 if os.environ.get("ZOEA_SOAK") else 50_000


@walk_cases("unit", HOSTILE)
def test_hostile_repetition_costs_time_in_proportion_to_its_length(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        begun = process_time()
        redact.redact_all(text)
        return process_time() - begun

    seconds(10_000)
    assert seconds(SIZE) < SIZE / 100_000


def test_a_megabyte_of_everything_hostile_is_redacted_in_seconds() -> None:
    text = "".join(unit * 40 for unit in HOSTILE)
    text = (text * (1_000_000 // len(text) + 1))[:1_000_000]
    begun = process_time()
    redact.redact_all(text)
    assert process_time() - begun < 10.0


@given(st.text(alphabet=st.sampled_from("ab1- .:@+=/\"'\\\nsk-eyJpwd_token4"), max_size=80))
def test_redaction_is_idempotent(text: str) -> None:
    once = redact.redact_secrets(text)
    assert redact.redact_secrets(once) == once


@given(st.text(), st.text())
def test_a_key_is_found_between_any_words(before: str, after: str) -> None:
    assert "Zk93mfpQ27xx" not in redact.redact_all(f"{before} sk-Zk93mfpQ27xx {after}")


NAMES = (
    *("password", "passwd", "pass_phrase", "passcode", "passkeys", "pwd", "pw", "pin_code", "pin", "totp_seed", "psk"),
    *("mnemonic", "secret", "secrets", "api_key", "signing-keys", "token", "passwort", "kennwort", "geheimnis"),
    *("losung", "mot de passe", "contraseñas", "senha", "parola", "wachtwoord", "hasło", "haslo", "şifre", "пароль"),
    *("密码", "密碼", "口令", "密钥", "パスワード", "暗証番号", "비밀번호"),
)
ODD = (("s", "ſ"), ("k", "\u212a"), ("i", "ı"), ("i", "İ"), ("о", "\u1c82"))
"""Letters, and others that a pattern without case treats as equal."""


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_searched_wherever_a_pattern_would_find_a_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name, name.upper(), name.title(), *(name.replace(*one) for one in ODD)}
    texts = [f"{one}{ending}" for one in names for ending in (": Zx9_hunter7", ' is "Zx9_hunter7"', "是 Zx9_hunter7")]
    redacted = [redact.redact_secrets(text) for text in texts]
    assert redacted != texts
    monkeypatch.setattr(secret_patterns, "_names_secret", lambda text: True)
    assert redacted == [redact.redact_secrets(text) for text in texts]


@walk_cases("name", secret_patterns.FOREIGN.split("|"))
def test_a_text_with_a_name_of_another_language_is_searched(name: str) -> None:
    sample = re.sub(r"\[(.)[^]]*\]", r"\1", name).replace("?", "")
    assert "hunter" not in redact.redact_secrets(f"{sample}: Zx9_hunter7")


@walk_cases("text", ["AUTHORİZATION: bearer Zx9hunter7", "authorızation=token Zx9hunter7", "BEARER Zx9hunter7"])
def test_a_header_is_found_in_letters_of_any_case(text: str) -> None:
    assert "hunter" not in redact.redact_secrets(text)
