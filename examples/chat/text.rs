//! Text that others have written, for a terminal.

/// Without what would move the cursor, change colours or turn the direction of writing.
pub fn clean(text: &str) -> String {
    let harmful = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if harmful(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Cuts a text into rows of at most so many columns, at spaces where there are some.
pub fn rows(text: &str, columns: usize) -> Vec<&str> {
    let mut rows = Vec::new();
    let mut rest = text;
    loop {
        let end = fitting(rest, columns);
        if end == rest.len() {
            rows.push(rest);
            return rows;
        }
        let space = if rest[end..].starts_with(' ') { Some(end) } else { rest[..end].rfind(' ') };
        match space {
            Some(space) if space > 0 => {
                rows.push(&rest[..space]);
                rest = &rest[space + 1..];
            }
            _ => {
                rows.push(&rest[..end]);
                rest = &rest[end..];
            }
        }
    }
}

/// How many bytes of a text fit, and at least one character.
fn fitting(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += width(c);
        if used > columns && at > 0 {
            return at;
        }
    }
    text.len()
}

/// How many columns a character takes, near enough to cut rows.
fn width(c: char) -> usize {
    match c {
        // Marks that go on top of the character before.
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        // Chinese, Japanese, Korean; symbols that are as wide as those.
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_command_the_terminal() {
        assert_eq!(
            clean("a\u{1b}[2Jb\rc\n\u{202e}d\u{9b}é"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}d\u{fffd}é"
        );
    }

    #[test]
    fn rows_are_cut_at_spaces_or_where_there_is_none() {
        assert_eq!(rows("", 5), [""]);
        assert_eq!(rows("hello", 5), ["hello"]);
        assert_eq!(rows("hello you", 5), ["hello", "you"], "the space would be the sixth");
        assert_eq!(rows("one two three", 8), ["one two", "three"]);
        assert_eq!(rows("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(rows("  x", 2), [" ", "x"]);
    }

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        assert_eq!(rows("李雷李", 4), ["李雷", "李"]);
        assert_eq!(rows("e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}"]);
        assert_eq!(rows("李雷", 1), ["李", "雷"], "a row has one character at least");
    }
}
