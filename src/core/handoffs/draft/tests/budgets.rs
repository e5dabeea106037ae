//! Budgets hold as the model's own vocabulary counts, on text of which bytes say little.

use super::*;

/// Turns in texts that are dense, a few sentences of which must be kept.
fn dense() -> Vec<Value> {
    let mut all = Vec::new();
    for n in 0..160_usize {
        all.push(user(&format!(
            "第{n}步：请继续处理下一个文件并运行测试，然后报告结果。"
        )));
        let key: String = (0..12)
            .map(|at| format!("{:08x}", (n * 40 + at) * 2_654_435_761 % 4_294_967_291))
            .collect();
        all.extend(called(
            &format!("e{n}"),
            "Edit",
            json!({"file_path": format!("源代码/导出器/AbstractTransactionAwareConnectionFactory{n}.rs")}),
            "ok",
            false,
        ));
        all.extend(ran(
            &format!("r{n}"),
            &format!("cargo test -p part_{n} -- --exact 模块::测试_{n}"),
            &format!("断言 left={key} right=TWFuIGlzIGRpc3Rpbmd1aXNoZWQ{n}sIG5vdCBvbmx5IGJ5"),
            false,
        ));
        let kept = if n % 8 == 0 {
            "We decided to keep the order: "
        } else {
            ""
        };
        all.push(model(&format!("{kept}保持 key_{n} 的顺序，服务器要求 {key}。")));
    }
    all
}

#[test]
fn budgets_hold_as_the_models_own_vocabulary_counts() {
    let index = indexed(&dense());
    for count in [TokenCounter::O200k, TokenCounter::Estimated] {
        for tokens in [3_000, 4_000, 8_000] {
            let spec = DraftSpec {
                count,
                ..request(tokens)
            };
            for made in [index.local(&spec).unwrap(), index.bundle(&spec).unwrap()] {
                let counted = count.tokens(&made);
                assert!(counted <= tokens, "{count:?}: {counted} of {tokens} in\n{made}");
                assert!(counted * 10 > tokens * 8, "{count:?}: {counted} of {tokens}");
                // The common estimate of four bytes a token is too far off.
                let by_bytes = made.len() / 4;
                assert!(
                    TokenCounter::O200k.tokens(&made) * 100 > by_bytes * 115,
                    "{by_bytes}"
                );
            }
        }
        let spec = DraftSpec { count, ..request(0) };
        let whole = index.completed("## Goal\nx", &spec, &super::super::Prompts::default());
        let (_, also) = whole.split_once("## Also known").unwrap();
        // The first request is kept whole, besides.
        let (first, also): (Vec<&str>, Vec<&str>) =
            also.lines().partition(|line| line.starts_with("- First request"));
        let also = also.join("\n");
        assert_eq!(first.len(), 1);
        assert!(count.tokens(&also) <= 800, "{count:?}: {}", count.tokens(&also));
    }
}

#[test]
fn an_exceeded_budget_is_reported_in_tokens_and_an_estimate_is_marked() {
    let index = indexed(&dense());
    let error = |count| {
        let spec = DraftSpec {
            count,
            ..request(500)
        };
        index.local(&spec).unwrap_err().to_string()
    };
    let (counted, estimated) = (error(TokenCounter::O200k), error(TokenCounter::Estimated));
    assert!(
        !counted.contains('≈') && counted.ends_with("and there are 500"),
        "{counted}"
    );
    assert!(estimated.starts_with("what must be kept takes ≈ "), "{estimated}");
}
