# The Homebrew formula of a release. `build` fills in the names in braces.
class BatonLlm < Formula
  desc "{description}"
  homepage "{homepage}"
  version "{version}"
  license any_of: ["MIT", "Apache-2.0"]

{platforms}

  def install
    bin.install "baton"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/baton.bash" => "baton"
    zsh_completion.install "completions/_baton"
    fish_completion.install "completions/baton.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/baton --version")
  end
end
