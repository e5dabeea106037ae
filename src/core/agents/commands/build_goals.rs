//! Commands of build tools that take a list of goals after any options: `mvn -q clean test`, `gradle :app:test --info`.

use std::borrow::Cow;

use super::steps::program;
use crate::agents::command_table::{self, CommandPurpose, WORDS};

/// The command with its main goal after the program, as the table of commands has it: `mvn test -q`, `gradle test :app --info`.
///
/// A goal that tests comes before one that builds. Goals of another purpose are left out, and other commands are unchanged.
pub(super) fn by_main_goal(command: &str) -> Cow<'_, str> {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    let Some(tool) = BuildTool::from_program(program(first)) else {
        return command.into();
    };
    let (mut goals, mut rest) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        if WORDS.goal_options.contains(&word) {
            rest.extend([Some(word), words.next()].into_iter().flatten());
        } else if word.starts_with('-') || word.contains(['=', '>', '<', '\'', '"', '$']) {
            rest.push(word);
        } else {
            let (goal, project) = tool.goal(word);
            match tool.purpose(goal) {
                Some(purpose) => goals.push((purpose, goal, project)),
                None if goal == "clean" => {}
                // The value of an option, or a goal of a plugin.
                None => rest.push(word),
            }
        }
    }
    let Some(main) = goals.iter().map(|(purpose, ..)| *purpose).min() else {
        return command.into();
    };
    goals.retain(|(purpose, ..)| *purpose == main);
    let skips = |word: &&str| WORDS.skips_tests.iter().any(|option| word.starts_with(option));
    let mut all = vec![first];
    for (at, (_, goal, project)) in goals.iter().enumerate() {
        match main {
            // Without its tests, a lifecycle only builds.
            CommandPurpose::Test if rest.iter().any(skips) => all.extend((at == 0).then_some("package")),
            _ if at == 0 || goals[0].1 != *goal => all.push(goal),
            _ => {}
        }
        all.extend(project);
    }
    all.extend(rest);
    all.join(" ").into()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BuildTool {
    Maven,
    Gradle,
}

impl BuildTool {
    fn from_program(name: &str) -> Option<Self> {
        match name {
            "mvn" | "mvnw" | "mvnd" => Some(Self::Maven),
            "gradle" | "gradlew" | "gradlew.bat" => Some(Self::Gradle),
            _ => None,
        }
    }

    /// The goal that a word names, and its project.
    fn goal(self, word: &str) -> (&str, Option<&str>) {
        match word.rsplit_once(':') {
            // A goal of a Maven plugin has its name before the colon.
            Some((project, goal)) if self == Self::Gradle => {
                (goal, Some(project).filter(|path| !path.is_empty()))
            }
            _ => (word, None),
        }
    }

    fn purpose(self, goal: &str) -> Option<CommandPurpose> {
        let name = match self {
            Self::Maven => "mvn",
            Self::Gradle => "gradle",
        };
        command_table::purpose(&[name, goal])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_goal_of_a_build_tool_comes_first() {
        for (command, by_goal) in [
            ("mvn test", "mvn test"),
            ("mvn -q test", "mvn test -q"),
            ("mvn -B -pl app clean verify", "mvn verify -B -pl app"),
            (
                "./mvnw -ntp clean compile test -Dtest=LexerTest",
                "./mvnw test -ntp -Dtest=LexerTest",
            ),
            ("mvn -f app/pom.xml clean test", "mvn test -f app/pom.xml"),
            ("mvn -q verify -DskipTests", "mvn package -q -DskipTests"),
            ("mvn spring-boot:run", "mvn spring-boot:run"),
            ("./gradlew :app:test --info", "./gradlew test :app --info"),
            ("gradle :a:test :b:test", "gradle test :a :b"),
            ("gradle clean build -x test", "gradle build -x test"),
            ("gradle --version", "gradle --version"),
            ("mvn dependency:tree", "mvn dependency:tree"),
            ("cargo -q test", "cargo -q test"),
        ] {
            assert_eq!(by_main_goal(command), by_goal);
        }
    }
}
