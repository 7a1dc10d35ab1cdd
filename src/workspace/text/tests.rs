use super::*;
use proptest::prelude::*;

fn legacy(name: &str) -> Encoding {
    Encoding::Legacy(encoding_rs::Encoding::for_label(name.as_bytes()).unwrap())
}

#[test]
fn marks_and_encodings_survive() {
    let cases: &[(&[u8], &str, Encoding, bool)] = &[
        (b"", "", Encoding::Utf8, false),
        (b"a\nb", "a\nb", Encoding::Utf8, false),
        (b"\xef\xbb\xbfa\r\n", "a\r\n", Encoding::Utf8, true),
        (b"\xef\xbb\xbf", "", Encoding::Utf8, true),
        (b"\xff\xfea\0\n\0", "a\n", Encoding::Utf16Le, true),
        (b"\xfe\xff\0a\xd8\x3d\xde\x00", "a\u{1f600}", Encoding::Utf16Be, true),
    ];
    for (bytes, content, encoding, bom) in cases {
        let text = Text::from_bytes(bytes).unwrap();
        assert_eq!(
            (text.content(), text.encoding(), text.bom(), text.guessed()),
            (*content, *encoding, *bom, false)
        );
        assert_eq!(text.to_bytes().unwrap(), *bytes);
    }
}

#[test]
fn what_is_not_text_is_refused_by_name() {
    let binary = |b: &[u8]| matches!(Text::from_bytes(b), Err(NotText::Binary { .. }));
    assert!(binary(b"a\0b"));
    assert!(binary(b"\xff\xfe\0\0"), "UTF-32 is no UTF-16");
    assert!(binary(b"\x89PNG\r\n\x1a\n\x00\x00"));
    assert!(binary(b"\xe9\x01\x02"));
    let lossy = |b: &[u8], e| assert_eq!(Text::from_bytes(b), Err(NotText::Lossy { encoding: e }));
    lossy(b"\xff\xfea", "UTF-16LE");
    lossy(b"\xfe\xff\xd8\x00", "UTF-16BE");
    lossy(
        "größer, schöner, weißer \u{20ac} und \u{00e9}\n"
            .as_bytes()
            .split_last()
            .unwrap()
            .1
            .split_last()
            .unwrap()
            .1,
        "UTF-8",
    );
    lossy(b"\xef\xbb\xbf\xff", "UTF-8");
    // Short text: its last character cut, or three broken places.
    lossy(b"caf\xc3\xa9 \xe2\x82", "UTF-8");
    lossy(
        "é\u{20ac}ü".as_bytes().iter().chain(b"a\xffb\xfec\xff").copied().collect::<Vec<_>>().as_slice(),
        "UTF-8",
    );
    let shifting = Text::from_bytes(b"// \x1b$B4A;z\x1b(B\n");
    assert_eq!(shifting, Err(NotText::Shifting { encoding: "ISO-2022-JP" }));
    assert!(Text::from_bytes(b"\x1b[31mred\x1b(B\x1b[m\n").is_ok(), "what a terminal shows is text");
    let big = vec![b'a'; MAX_BYTES + 1];
    assert_eq!(Text::from_bytes(&big), Err(NotText::TooLarge { bytes: MAX_BYTES + 1, limit: MAX_BYTES }));
}

#[test]
fn legacy_text_is_guessed_and_kept() {
    let cases = [
        ("windows-1252", "// Größe der Fläche, für das Menü\nint groesse = 1; // à côté de l'élève\n"),
        ("Shift_JIS", "// これは日本語のコメントです。設定を読み込む\nint main() {}\n"),
        ("EUC-JP", "# 日本語のコメントを書きます。ファイルを開く\n"),
        ("GBK", "// 这是一个中文注释，用于说明函数的作用\nint x;\n"),
        ("Big5", "// 這是一個中文註解，用來說明函式的作用\n"),
        ("EUC-KR", "// 한국어 주석입니다. 파일을 읽습니다\n"),
        ("windows-1251", "// Это комментарий на русском языке\n"),
        ("KOI8-U", "// Это комментарий на русском языке, очень длинный\n"),
        ("windows-1250", "// Příliš žluťoučký kůň úpěl ďábelské ódy\n"),
    ];
    for (name, content) in cases {
        let encoding = encoding_rs::Encoding::for_label(name.as_bytes()).unwrap();
        let (bytes, _, unmappable) = encoding.encode(content);
        assert!(!unmappable, "{name}");
        let text = Text::from_bytes(&bytes).unwrap();
        assert_eq!(
            (text.content(), text.encoding(), text.guessed()),
            (content, Encoding::Legacy(encoding), true),
            "{name}"
        );
        assert_eq!(text.to_bytes().unwrap(), *bytes, "{name}");
    }
}

#[test]
fn a_character_without_a_code_is_named() {
    let text = Text::from_bytes(b"caf\xe9\r\n").unwrap();
    let error = text.with_content("café\r\nsnow ☃\r\n").to_bytes().unwrap_err();
    assert_eq!(error, Unencodable { encoding: "windows-1252", character: '☃', line: 2 });
    assert!(error.to_string().contains("U+2603, line 2"), "{error}");
}

#[test]
fn editors_show_the_mark() {
    let text = Text::from_editor("\u{feff}a\r\nb");
    assert!(text.bom());
    assert_eq!(text.shown(), "\u{feff}a\r\nb");
    assert_eq!(text.canonical(), "a\nb");
    assert_eq!(text.to_bytes().unwrap(), "\u{feff}a\r\nb".as_bytes());
    assert_eq!(Text::from_editor("a").canonical(), Text::new_utf8("a").canonical());
}

#[test]
fn endings_are_counted() {
    let cases = [
        ("", LineEnding::None, "\n"),
        ("a", LineEnding::None, "\n"),
        ("a\nb\n", LineEnding::Lf, "\n"),
        ("a\r\nb", LineEnding::Crlf, "\r\n"),
        ("a\rb\r", LineEnding::Cr, "\r"),
        ("a\r\nb\n", LineEnding::Mixed, "\r\n"),
        ("a\nb\r\n", LineEnding::Mixed, "\n"),
        ("a\r\nb\nc\n", LineEnding::Mixed, "\n"),
    ];
    for (content, ending, newline) in cases {
        let text = Text::new_utf8(content);
        assert_eq!((text.line_ending(), text.newline()), (ending, newline), "{content:?}");
    }
    assert!(
        Text::new_utf8("").final_newline()
            && Text::new_utf8("a\r").final_newline()
            && !Text::new_utf8("a").final_newline()
    );
}

#[test]
fn a_rewrite_takes_the_form_of_the_file() {
    let cases = [
        ("a\r\nb\r\n", "a\nc", "a\r\nc"),
        ("a\r\nb\r\n", "a\r\nc\r\n", "a\r\nc\r\n"),
        ("a\n", "x\r\ny\r\n", "x\ny\n"),
        ("a", "x\r\ny", "x\r\ny"),
        ("\u{feff}a\r\n", "b\n", "\u{feff}b\r\n"),
        ("\u{feff}a\n", "\u{feff}b\n", "\u{feff}b\n"),
        ("a\n", "\u{feff}b\n", "\u{feff}b\n"),
        ("a\r\nb\nc\r\nd\n e\r\n", "a\nb\nNEW\nc\nd\n", "a\r\nb\nNEW\r\nc\r\nd\n"),
    ];
    for (old, new, expected) in cases {
        assert_eq!(Text::from_editor(old).rewrite(new).shown(), expected, "{old:?} ← {new:?}");
    }
}

#[test]
fn a_large_alignment_still_finds_the_lines() {
    let old: Vec<String> = (0..3000).map(|i| format!("line {i}")).collect();
    let mut new = old.clone();
    new.insert(0, "first".into());
    new.push("last".into());
    new[1500] = "changed".into();
    let (old, new): (Vec<_>, Vec<_>) =
        (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
    let twins = lines::align(&old, &new);
    for (j, twin) in twins.iter().enumerate() {
        assert_eq!(*twin, (j != 0 && j != 1500 && j != 3001).then(|| j - 1));
    }
}

proptest! {
    #[test]
    fn bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(text) = Text::from_bytes(&bytes) {
            prop_assert_eq!(text.to_bytes().unwrap(), bytes);
        }
    }

    #[test]
    fn unicode_text_comes_back(content in "[^\0\u{feff}][^\0]{0,60}", kind in 0..4) {
        let (encoding, bom) = [(Encoding::Utf8, false), (Encoding::Utf8, true), (Encoding::Utf16Le, true), (Encoding::Utf16Be, true)][kind as usize];
        let text = Text { encoding, bom, ..Text::new_utf8(content) };
        prop_assert_eq!(Text::from_bytes(&text.to_bytes().unwrap()).unwrap(), text);
    }

    #[test]
    fn legacy_bytes_come_back(content in "[a-z äöüéèß№これ日本语한국ы\n]{1,60}", which in 0..10usize) {
        let names = ["windows-1252", "windows-1250", "windows-1251", "ISO-8859-2", "KOI8-R", "Shift_JIS", "EUC-JP", "GBK", "Big5", "EUC-KR"];
        let text = Text { encoding: legacy(names[which]), guessed: true, ..Text::new_utf8(content) };
        if let Ok(bytes) = text.to_bytes()
            && let Ok(read) = Text::from_bytes(&bytes)
        {
            prop_assert_eq!(read.to_bytes().unwrap(), bytes);
        }
    }

    #[test]
    fn lines_add_up(content in "[ab\n\r]{0,40}") {
        let joined: String = lines(&content).flat_map(|l| [l.text, l.ending]).collect();
        prop_assert_eq!(&joined, &content);
        let text = Text::new_utf8(content.clone());
        let again = text.rewrite(&text.canonical());
        prop_assert_eq!(again.content(), content);
    }
}
