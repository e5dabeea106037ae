//! Checks that budgets hold on text whose size in bytes says little about its tokens.

use super::*;
use crate::handoffs::draft::tokens;

/// Turns of dense text, a few sentences of which are required.
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
            "Edit",
            json!({"file_path": format!("源代码/导出器/AbstractTransactionAwareConnectionFactory{n}.rs")}),
            "ok",
        ));
        all.extend(ran(
            &format!("cargo test -p part_{n} -- --exact 模块::测试_{n}"),
            &format!("断言 left={key} right=TWFuIGlzIGRpc3Rpbmd1aXNoZWQ{n}sIG5vdCBvbmx5IGJ5"),
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
fn budgets_hold_on_dense_texts() {
    let index = indexed(&dense());
    for given in [3_000, 4_000, 8_000] {
        let spec = request(given);
        for made in [index.local(&spec).unwrap(), index.bundle(&spec).unwrap()] {
            let counted = tokens(&made);
            assert!(counted <= given, "{counted} of {given} in\n{made}");
            assert!(counted * 10 > given * 8, "{counted} of {given}");
            // The common estimate of four bytes per token is too far off.
            let by_bytes = made.len() / 4;
            assert!(counted * 100 > by_bytes * 115, "{counted}, {by_bytes}");
        }
    }
    let whole = index.completed("## Goal\nx", &request(0));
    let (_, also) = whole.split_once("## Also known").unwrap();
    // The first request is kept whole in addition.
    let (first, also): (Vec<&str>, Vec<&str>) =
        also.lines().partition(|line| line.starts_with("- First request"));
    assert_eq!(first.len(), 1);
    assert!(tokens(&also.join("\n")) <= 800);
}

#[test]
fn an_exceeded_budget_is_reported_in_tokens_which_are_estimated() {
    let error = indexed(&dense()).local(&request(500)).unwrap_err().to_string();
    assert!(error.starts_with("the required parts take ≈ "), "{error}");
    assert!(error.ends_with("more than the limit of 500"), "{error}");
}
