//! Bytes to instructions and back: what is read, and each thing that is refused.

use guac_protocol::{
    ByteClass, ConnectionId, DecodeError, Decoder, EncodeError, Expected, Foreign, Instruction,
    Limits, Side, Status, recognise,
};

use crate::support::{ID, decode, decode_error, wire};

fn framing(offset: u64, expected: Expected, got: ByteClass) -> DecodeError {
    DecodeError::Framing {
        offset,
        expected,
        got,
    }
}

#[test]
fn instructions_follow_each_other_with_nothing_between() {
    let read = decode(b"6.select,3.rdp;3.nop;4.size,1.1,0.,2.96;");
    let expected = [
        Instruction::new("select", ["rdp"]),
        Instruction::new("nop", [""; 0]),
        Instruction::new("size", ["1", "", "96"]),
    ];
    assert_eq!(read.instructions, expected);
    assert_eq!((read.error, read.mid_instruction), (None, false));
}

#[test]
fn a_partial_instruction_is_neither_read_nor_refused() {
    let read = decode(b"3.nop;6.select,3.rdp");
    assert_eq!(read.instructions.len(), 1);
    assert_eq!((read.error, read.mid_instruction), (None, true));
}

#[test]
fn text_may_hold_framing_characters() {
    let read = decode(b"4.name,5.a,b;c;");
    assert_eq!(read.instructions, [Instruction::new("name", ["a,b;c"])]);
}

#[test]
fn lengths_count_unicode_scalar_values() {
    let bytes = "4.name,7.ü😀\u{301}日本語!;".as_bytes();
    let read = decode(bytes);
    let expected = [Instruction::new("name", ["ü😀\u{301}日本語!"])];
    assert_eq!(read.instructions, expected);
}

#[test]
fn a_length_in_utf16_units_is_refused() {
    // Two units, one scalar value: the second "character" is the semicolon.
    let error = decode_error("4.name,2.😀;3.nop;");
    assert_eq!(
        error,
        framing(14, Expected::CommaOrSemicolon, ByteClass::Digit)
    );
}

#[test]
fn a_length_in_bytes_is_refused() {
    let error = decode_error("4.name,2.ü;3.nop;");
    assert_eq!(
        error,
        framing(12, Expected::CommaOrSemicolon, ByteClass::Digit)
    );
}

#[test]
fn a_length_with_a_leading_zero_is_refused() {
    for bytes in ["03.nop;", "00.;", "08192.x;"] {
        let expected = framing(1, Expected::Dot, ByteClass::Digit);
        assert_eq!(decode_error(bytes), expected, "{bytes}");
    }
}

#[test]
fn an_empty_length_is_refused() {
    let expected = framing(0, Expected::Digit, ByteClass::Punctuation);
    assert_eq!(decode_error(".nop;"), expected);
    let expected = framing(6, Expected::Digit, ByteClass::Punctuation);
    assert_eq!(decode_error("3.nop,.;"), expected);
}

#[test]
fn a_sign_before_a_length_is_refused() {
    let expected = framing(0, Expected::Digit, ByteClass::Punctuation);
    assert_eq!(decode_error("+3.nop;"), expected);
    assert_eq!(decode_error("-3.nop;"), expected);
}

#[test]
fn space_around_a_length_is_refused() {
    let before = framing(0, Expected::Digit, ByteClass::Space);
    assert_eq!(decode_error(" 3.nop;"), before);
    let behind = framing(1, Expected::DigitOrDot, ByteClass::Space);
    assert_eq!(decode_error("3 .nop;"), behind);
}

#[test]
fn a_newline_between_instructions_is_refused() {
    let expected = framing(6, Expected::Digit, ByteClass::Control);
    assert_eq!(decode_error("3.nop;\n3.nop;"), expected);
}

#[test]
fn digits_of_other_scripts_are_refused() {
    let expected = framing(0, Expected::Digit, ByteClass::NonAscii);
    assert_eq!(decode_error("٣.nop;"), expected);
}

#[test]
fn an_element_of_8192_characters_is_read_and_one_more_is_refused() {
    let longest = "ü".repeat(8_192);
    let read = decode(&wire("name", &[&longest]));
    assert_eq!(read.instructions, [Instruction::new("name", [longest])]);
    for length in ["8193", "9999", "81920"] {
        let error = decode_error(format!("4.name,{length}.x;"));
        let last = if length == "81920" { 11 } else { 10 };
        let (offset, limit) = (last, 8_192);
        assert_eq!(error, DecodeError::ElementTooLong { offset, limit });
    }
}

#[test]
fn a_length_that_overflows_an_integer_is_refused() {
    // 2^32 + 3 and 2^64 + 3 would be 3 in a reader that wraps around.
    for length in ["4294967299", "18446744073709551619"] {
        let error = decode_error(format!("{length}.nop;"));
        let (offset, limit) = (4, 8_192);
        assert_eq!(error, DecodeError::ElementTooLong { offset, limit });
    }
}

#[test]
fn nul_is_refused_anywhere() {
    assert_eq!(decode_error("3.n\0p;"), DecodeError::Nul { offset: 3 });
    assert_eq!(
        decode_error("4.name,2.a\0;"),
        DecodeError::Nul { offset: 10 }
    );
    let expected = framing(0, Expected::Digit, ByteClass::Control);
    assert_eq!(decode_error("\u{0}3.nop;"), expected);
}

#[test]
fn bytes_that_are_no_utf8_are_refused() {
    let broken: [&[u8]; 10] = [
        b"\x80",             // a continuation alone
        b"\xFF",             // never in UTF-8
        b"\xC0\x80",         // NUL, overlong
        b"\xC1\xBF",         // overlong, two bytes
        b"\xE0\x9F\xBF",     // overlong, three bytes
        b"\xF0\x8F\xBF\xBF", // overlong, four bytes
        b"\xED\xA0\x80",     // a surrogate
        b"\xF4\x90\x80\x80", // above U+10FFFF
        b"\xE2\x82;",        // cut short
        b"\xF0\x9F\x98A",    // cut short, one byte later
    ];
    for bytes in broken {
        let stream = [b"4.name,3.a", bytes, b"b;"].concat();
        let expected = DecodeError::NotUtf8 { offset: 10 };
        assert_eq!(decode_error(stream), expected, "{bytes:x?}");
    }
}

#[test]
fn a_connect_hidden_behind_a_false_first_byte_is_refused() {
    // A reader that trusts the first byte takes `;` and two more bytes into the character.
    let stream = b"4.name,1.\xF0;7.connect,4.evil;";
    assert_eq!(decode_error(stream), DecodeError::NotUtf8 { offset: 9 });
}

#[test]
fn an_empty_opcode_is_refused() {
    assert_eq!(decode_error("0.;"), DecodeError::EmptyOpcode { offset: 1 });
    assert_eq!(
        decode_error("3.nop;0.,1.a;"),
        DecodeError::EmptyOpcode { offset: 7 }
    );
}

#[test]
fn a_wrong_character_behind_an_element_is_refused() {
    let classes = [
        ("3.nopx", ByteClass::Letter),
        ("3.nop ", ByteClass::Space),
        ("3.nop\n", ByteClass::Control),
        ("3.nop.", ByteClass::Punctuation),
        ("3.nop4", ByteClass::Digit),
        ("3.nopü", ByteClass::NonAscii),
    ];
    for (stream, got) in classes {
        let expected = framing(5, Expected::CommaOrSemicolon, got);
        assert_eq!(decode_error(stream), expected, "{stream:?}");
    }
    let empty = framing(6, Expected::CommaOrSemicolon, ByteClass::Letter);
    assert_eq!(decode_error("1.a,0.b;"), empty);
}

#[test]
fn an_instruction_of_127_elements_is_read_and_one_more_is_refused() {
    let read = decode(&wire("many", &["x"; 126]));
    assert_eq!(read.instructions[0].args().len(), 126);
    let error = decode_error(wire("many", &["x"; 127]));
    let (offset, limit) = (6 + 126 * 4, 127);
    assert_eq!(error, DecodeError::TooManyElements { offset, limit });
}

#[test]
fn an_instruction_that_outgrows_the_limit_is_refused_at_the_limit() {
    let long = "x".repeat(8_192);
    let stream = [b"3.nop;".to_vec(), wire("many", &[long.as_str(); 8])].concat();
    let (offset, limit) = (6, 65_536);
    let expected = DecodeError::InstructionTooLong { offset, limit };
    assert_eq!(decode_error(stream), expected);
}

#[test]
fn an_instruction_may_end_exactly_at_the_limit() {
    let limits = Limits {
        instruction_bytes: 14,
        ..Limits::HANDSHAKE
    };
    let read = Decoder::new(limits).decode(b"6.select,3.rdp;");
    let (offset, limit) = (0, 14);
    assert_eq!(read, Err(DecodeError::InstructionTooLong { offset, limit }));
    let limits = Limits {
        instruction_bytes: 15,
        ..limits
    };
    let read = Decoder::new(limits).decode(b"6.select,3.rdp;more").unwrap();
    assert_eq!(read.consumed, 15);
    assert_eq!(read.instruction, Some(Instruction::new("select", ["rdp"])));
}

#[test]
fn a_failed_decoder_stays_failed() {
    let mut decoder = Decoder::new(Limits::HANDSHAKE);
    let error = decoder.decode(b"0.;").unwrap_err();
    assert_eq!(decoder.decode(b"3.nop;"), Err(error.clone()));
    assert_eq!(error.offset(), 1);
}

#[test]
fn encoding_counts_scalar_values() {
    let instruction = Instruction::new("name", ["ü😀", ""]);
    let bytes = instruction.encode(Side::Guacd).unwrap();
    assert_eq!(bytes, "4.name,2.ü😀,0.;".as_bytes());
    assert_eq!(instruction.check(Side::Guacd), Ok(bytes.len()));
}

#[test]
fn a_character_outside_the_basic_plane_is_never_written_to_guacamole() {
    let args = Instruction::new("args", ["plain", "a😀"]);
    let expected = EncodeError::OutsideBasicPlane { element: 2 };
    assert_eq!(args.encode(Side::Guacamole), Err(expected));
    assert!(
        Instruction::new("args", ["\u{FFFD}"])
            .encode(Side::Guacamole)
            .is_ok()
    );
}

#[test]
fn encoding_refuses_what_the_decoder_would() {
    for reader in [Side::Guacd, Side::Guacamole] {
        let empty = Instruction::new("", ["x"]);
        assert_eq!(empty.encode(reader), Err(EncodeError::EmptyOpcode));
        let nul = Instruction::new("name", ["x", "a\0b"]);
        assert_eq!(nul.encode(reader), Err(EncodeError::Nul { element: 2 }));
        assert!(Instruction::new("many", ["x"; 126]).encode(reader).is_ok());
        let many = Instruction::new("many", ["x"; 127]);
        let (limit, got) = (127, 128);
        let expected = EncodeError::TooManyElements { reader, limit, got };
        assert_eq!(many.encode(reader), Err(expected));
        let long = Instruction::new("name", ["x".repeat(8_193)]);
        let expected = EncodeError::ElementTooLong {
            reader,
            element: 1,
            limit: 8_192,
            got: 8_193,
        };
        assert_eq!(long.encode(reader), Err(expected));
    }
}

#[test]
fn guacd_reads_32768_bytes_and_not_one_more() {
    let reader = Side::Guacd;
    let of_size = |last: usize| {
        let long = "ü".repeat(4_096);
        let args = [long.clone(), long.clone(), long, "x".repeat(last)];
        Instruction::new("connect", args)
    };
    let fitting = of_size(8_158);
    assert_eq!(fitting.encode(reader).unwrap().len(), 32_768);
    let (limit, got) = (32_768, 32_769);
    let expected = EncodeError::TooLong { reader, limit, got };
    assert_eq!(of_size(8_159).encode(reader), Err(expected));
}

#[test]
fn guacamole_reads_less_than_8000_characters() {
    let reader = Side::Guacamole;
    let of_size = |last: usize| Instruction::new("args", ["é".repeat(last)]);
    let fitting = of_size(7_986).encode(reader).unwrap();
    assert_eq!(String::from_utf8(fitting).unwrap().chars().count(), 7_999);
    let (limit, got) = (7_999, 8_000);
    let expected = EncodeError::TooLong { reader, limit, got };
    assert_eq!(of_size(7_987).encode(reader), Err(expected));
}

#[test]
fn instructions_of_our_own_always_fit() {
    let wild = "a\0\n\u{1b}\u{85}😀é".to_owned() + &"😀".repeat(9_000);
    let error = Instruction::error(&wild, Status::ServerBusy);
    assert!(error.args()[0].starts_with("a?????é?"));
    assert_eq!(error.args()[0].chars().count(), 500);
    assert_eq!(error.args()[1], "513");
    let id = ConnectionId::parse(ID).unwrap();
    let ready = Instruction::ready(&id);
    for reader in [Side::Guacamole, Side::Guacd] {
        assert!(error.encode(reader).is_ok());
        assert_eq!(ready.encode(reader).unwrap(), wire("ready", &[ID]));
        let nop = Instruction::nop().encode(reader).unwrap();
        assert_eq!(nop, b"3.nop;");
        let disconnect = Instruction::disconnect().encode(reader).unwrap();
        assert_eq!(disconnect, b"10.disconnect;");
    }
}

#[test]
fn other_protocols_are_recognised_by_their_first_bytes() {
    for http in [
        "GET / HTTP/1.1",
        "POST /x",
        "PUT /",
        "PRI * HTTP/2.0",
        "CONNECT a:1",
        "OPTIONS *",
    ] {
        assert_eq!(recognise(http.as_bytes()), Some(Foreign::Http), "{http}");
    }
    for minor in 0..=4 {
        let hello = [0x16, 0x03, minor, 0x02, 0x00, 0x01];
        assert_eq!(recognise(&hello), Some(Foreign::TlsClientHello));
    }
    for other in [
        "",
        "GET",
        "\u{16}\u{3}",
        "\u{16}\u{3}\u{5}xx",
        "6.select,3.rdp;",
        "get / ",
    ] {
        assert_eq!(recognise(other.as_bytes()), None, "{other:?}");
    }
}

#[test]
fn statuses_have_their_numbers_and_names() {
    for status in Status::ALL {
        assert_eq!(Status::from_code(status.code()), Some(*status));
    }
    assert_eq!(Status::from_code(0x302), None);
    assert_eq!(Status::SessionClosed.code(), 523);
    assert_eq!(Status::ServerBusy.name(), "SERVER_BUSY");
    let retried = Status::ALL.iter().filter(|s| s.page_retries());
    let codes: Vec<u16> = retried.map(|s| s.code()).collect();
    assert_eq!(codes, [0x200, 0x202, 0x203, 0x207, 0x208, 0x301, 0x308]);
}
