//! Traditional Chinese characters, read as the simplified ones that the tables of words have.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Traditional characters, each with its simplified one: those of the words in the tables. Source: the variants of the Unihan
/// database.
///
/// A table has a traditional character only in words that have kana too, or a simplified form in the same list.
const PAIRS: &str = "並并 乾干 併并 來来 個个 們们 傳传 僅仅 優优 內内 別别 刪删 剛刚 創创 劃划 \
    動动 務务 問问 啟启 嗎吗 執执 報报 實实 審审 寫写 寬宽 將将 對对 導导 幫帮 \
    幹干 後后 從从 復复 應应 採采 換换 敗败 時时 暫暂 會会 構构 標标 樣样 檢检 \
    殘残 決决 沒没 測测 準准 滾滚 為为 無无 煩烦 現现 當当 發发 確确 碼码 紹绍 \
    終终 結结 給给 經经 編编 總总 繪绘 繼继 續续 處处 裏里 補补 裝装 裡里 製制 \
    複复 觸触 計计 設设 許许 訴诉 証证 評评 詢询 試试 話话 該该 誤误 說说 説说 \
    調调 請请 講讲 謝谢 證证 譯译 讀读 變变 讓让 載载 輸输 這这 進进 運运 過过 \
    遠远 選选 還还 釋释 錯错 鑰钥 長长 開开 閱阅 隨随 雜杂 項项 須须 題题 驗验 \
    麼么";

static SIMPLIFIED: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let pairs = PAIRS.split(' ').map(str::chars);
    pairs
        .filter_map(|mut pair| pair.next().zip(pair.next()))
        .collect()
});

/// A string with simplified characters. Its size in bytes stays the same. Japanese text keeps its characters.
pub(super) fn simplified(text: &str) -> Cow<'_, str> {
    let is_kana = |c| ('\u{3040}'..='\u{30ff}').contains(&c);
    let is_traditional = |c| c > '\u{4dff}' && SIMPLIFIED.contains_key(&c);
    if text.is_ascii() || !text.contains(is_traditional) || text.contains(is_kana) {
        return text.into();
    }
    let chars = text.chars();
    chars.map(|c| SIMPLIFIED.get(&c).copied().unwrap_or(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traditional_characters_are_simplified() {
        for (text, expected) in [
            ("請幫我寫測試", "请帮我写测试"),
            ("请帮我写测试", "请帮我写测试"),
            ("テストを實行", "テストを實行"),
            ("plain", "plain"),
        ] {
            assert_eq!(simplified(text), expected);
        }
        let has_same_size = |(from, to): (&char, &char)| from.len_utf8() == to.len_utf8();
        assert!(SIMPLIFIED.len() > 100 && SIMPLIFIED.iter().all(has_same_size));
    }
}
