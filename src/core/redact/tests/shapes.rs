//! Formats of credentials, assembled at run time from a seeded generator, so that no scanner takes a line of
//! this file for a secret.
//!
//! Bars are dropped. A letter with a number stands for that many letters of a kind.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// Name, surrounding text (`{}` is the secret), fixed beginning, and the rest.
type SecretShape = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const SHAPES: &[SecretShape] = &[
    ("anthropic", "the key is {} here", "sk-ant-|api03-", "w95"),
    ("anthropic admin", "the key is {} here", "sk-ant-|admin01-", "w95"),
    ("openai project", "the key is {} here", "sk-|proj-", "w74"),
    ("openai legacy", "the key is {} here", "s|k-", "a48"),
    ("openai service", "the key is {} here", "sk-|svcacct-", "w60"),
    ("openrouter", "the key is {} here", "sk-or|-v1-", "h64"),
    ("github classic", "the key is {} here", "gh|p_", "a36"),
    ("github oauth", "the key is {} here", "gh|o_", "a36"),
    ("github app", "the key is {} here", "gh|s_", "a36"),
    ("github refresh", "the key is {} here", "gh|r_", "a36"),
    ("github fine-grained", "the key is {} here", "github|_pat_", "a82"),
    ("google, new form", "the key is {} here", "A|Q.", "w50"),
    ("openai session", "the key is {} here", "se|ss-", "a40"),
    ("openai refresh", "the key is {} here", "r|t_", "w60"),
    ("doppler", "the key is {} here", "d|p.st.", "a43"),
    ("hugging face org", "the key is {} here", "ap|i_org_", "a34"),
    ("vercel blob", "the key is {} here", "ver|cel_blob_rw_", "a40"),
    ("cloudflare", "the key is {} here", "cf|ut_", "a48"),
    ("azure devops", "the key is {}AZDOab1C here", "", "a76"),
    ("entra refresh", "the key is {} here", "1|.A", "w300"),
    ("paseto", "the key is {} here", "v4|.local.", "w120"),
    ("discord bot, alone", "the value is {} here", "M|TAx", "a22.a6.a38"),
    ("digest", "Authorization: Digest username=\"u\", realm=\"r\", response=\"{}\"", "", "h32"),
    ("signature v4", "AWS4-HMAC|-SHA256 Credential=x/20260101/r/s/aws4_request, SignedHeaders=host, Signature={}", "", "h64"),
    ("fish", "set -gx OPENAI_API_KEY {}", "", "a40"),
    ("csh", "setenv DB_PASSWORD {}", "", "a20"),
    ("setx", "setx MY_TOKEN {}", "", "a20"),
    ("aws configure", "aws configure set aws_secret_access_key {}", "", "a40"),
    ("npm config", "npm config set //registry.example.com/:_authToken {}", "", "a36"),
    ("gh secret", "gh secret set DEPLOY --body {}", "", "a24"),
    ("docker login", "docker login -u ada -p {} registry.example.com", "", "a24"),
    ("mongosh", "mongosh db.example.com -u ada -p {}", "", "a24"),
    ("httpie", "http -a ada:{} example.com", "", "a24"),
    ("curl cookie", "curl -b 'session={}' https://example.com", "", "a32"),
    ("curl cookie, long", "curl -s --cookie session={} https://example.com", "", "a32"),
    ("kubectl", "kubectl create secret generic s --from-literal=pin={}", "", "a24"),
    ("gitlab", "the key is {} here", "gl|pat-", "a20"),
    ("gitlab deploy", "the key is {} here", "gl|dt-", "a20"),
    ("gitlab runner", "the key is {} here", "gl|rt-", "a20"),
    ("aws key id", "the key is {} here", "AK|IA", "u16"),
    ("aws session key id", "the key is {} here", "AS|IA", "u16"),
    ("google", "the key is {} here", "AI|za", "a35"),
    ("google oauth", "the key is {} here", "ya|29.", "a60"),
    ("google client secret", "the key is {} here", "GOC|SPX-", "a28"),
    ("google refresh", "the key is {} here", "1/|/0", "a42"),
    ("slack bot", "the key is {} here", "xo|xb-", "n12-a24"),
    ("slack user", "the key is {} here", "xo|xp-", "n12-n12-n12-h32"),
    ("slack app", "the key is {} here", "xa|pp-1-", "u11-n13-h64"),
    ("stripe live", "the key is {} here", "sk_|live_", "a24"),
    ("stripe restricted", "the key is {} here", "rk_|live_", "a24"),
    ("stripe webhook", "the key is {} here", "wh|sec_", "a32"),
    ("hugging face", "the key is {} here", "hf|_", "a34"),
    ("npm", "the key is {} here", "np|m_", "a36"),
    ("pypi", "the key is {} here", "py|pi-AgEIcHlwaS5vcmc", "a90"),
    ("xai", "the key is {} here", "xa|i-", "a80"),
    ("groq", "the key is {} here", "gs|k_", "a52"),
    ("perplexity", "the key is {} here", "pp|lx-", "a48"),
    ("replicate", "the key is {} here", "r8|_", "a37"),
    ("nvidia", "the key is {} here", "nv|api-", "a64"),
    ("tavily", "the key is {} here", "tv|ly-", "a32"),
    ("pinecone", "the key is {} here", "pc|sk_", "a70"),
    ("langsmith", "the key is {} here", "ls|v2_pt_", "h32"),
    ("supabase", "the key is {} here", "sb|p_", "h40"),
    ("docker hub", "the key is {} here", "dc|kr_pat_", "a27"),
    ("netlify", "the key is {} here", "nf|p_", "a40"),
    ("figma", "the key is {} here", "fi|gd_", "a40"),
    ("notion", "the key is {} here", "nt|n_", "n11a35"),
    ("notion legacy", "the key is {} here", "sec|ret_", "a43"),
    ("linear", "the key is {} here", "lin|_api_", "a40"),
    ("sendgrid", "the key is {} here", "S|G.", "a22.a43"),
    ("mailgun", "the key is {} here", "ke|y-", "h32"),
    ("cursor", "the key is {} here", "ke|y_", "h64"),
    ("twilio", "the key is {} here", "S|K", "h32"),
    ("shopify", "the key is {} here", "shp|at_", "h32"),
    ("digitalocean", "the key is {} here", "dop|_v1_", "h64"),
    ("databricks", "the key is {} here", "da|pi", "h32"),
    ("pulumi", "the key is {} here", "pu|l-", "h40"),
    ("doppler", "the key is {} here", "dp|.pt.", "a43"),
    ("vault", "the key is {} here", "hv|s.", "a95"),
    ("planetscale", "the key is {} here", "psc|ale_pw_", "a43"),
    ("postman", "the key is {} here", "PM|AK-", "h24-h34"),
    ("rubygems", "the key is {} here", "ruby|gems_", "h48"),
    ("grafana", "the key is {} here", "gl|sa_", "a32_h8"),
    ("sentry", "the key is {} here", "snt|ryu_", "h64"),
    ("age", "the key is {} here", "AGE-SEC|RET-KEY-1", "U58"),
    ("1password", "the key is {} here", "A|3-", "u6-u11-u5-u5-u5"),
    ("dynatrace", "the key is {} here", "dt0|c01.", "u24.u64"),
    ("atlassian", "the key is {} here", "ATA|TT3", "a186"),
    ("bitbucket", "the key is {} here", "AT|BB", "a32"),
    ("square", "the key is {} here", "sq0|atp-", "a22"),
    ("alibaba", "the key is {} here", "LT|AI", "a20"),
    ("fly", "the key is {} here", "fo|1_", "a43"),
    ("fly machine", "the key is {} here", "fm|2_lJPECAAAAAAA", "b120"),
    ("fly machine, short", "FlyV1 {}", "fm|1r_", "b60"),
    ("bedrock long-lived", "the key is {} here", "AB|SKQmVkcm9ja0FQSUtleS1", "b104"),
    ("bedrock, in an environment", "export AWS_BEARER={}", "AB|SK", "b128"),
    ("bedrock short-lived", "the key is {} here", "bedrock-api|-key-YmVkcm9jay5hbWF6b25hd3MuY29t", "b600"),
    ("crates.io", "cargo login {}", "ci|o", "a32"),
    ("notion, newer", "the key is {} here", "nt|n_", "a46"),
    ("tailscale auth", "tailscale up --authkey {}", "tske|y-auth-", "a17-a32"),
    ("tailscale api", "the key is {} here", "tske|y-api-", "a12-a30"),
    ("tailscale client", "the key is {} here", "tske|y-client-", "a12CNTRL-a32"),
    ("new relic user", "the key is {} here", "NR|AK-", "O27"),
    ("new relic insert", "the key is {} here", "NR|II-", "a32"),
    ("new relic browser", "the key is {} here", "NR|JS-", "h19"),
    ("new relic license", "the key is {} here", "", "h36NR|AL"),
    ("new relic license, eu", "the key is {} here", "eu|01xx", "h30NR|AL"),
    ("cerebras", "the key is {} here", "cs|k-", "l48"),
    ("voyage", "the key is {} here", "p|a-", "w43"),
    ("elevenlabs", "the key is {} here", "s|k_", "h48"),
    ("resend", "the key is {} here", "r|e_", "a8_a24"),
    ("vercel", "the key is {} here", "vc|k_", "a56"),
    ("neon", "the key is {} here", "na|pi_", "l64"),
    ("telegram bot", "the key is {} here", "", "n10:|AA|a33"),
    ("readme", "the key is {} here", "rd|me_", "l70"),
    ("clojars", "the key is {} here", "CLO|JARS_", "l60"),
    ("easypost", "the key is {} here", "EZ|AK", "a54"),
    ("planetscale token", "the key is {} here", "pscale|_tkn_", "a43"),
    ("prefect", "the key is {} here", "pn|u_", "a36"),
    ("aws secret in an environment", "AWS_SECRET_ACCESS_KEY={}", "", "b40"),
    ("aws secret in a file", "aws_secret_access_key = {}", "", "b40"),
    ("aws session token", "AWS_SESSION_TOKEN={}", "", "b120"),
    ("export", "export DB_PASSWORD={}", "", "p"),
    ("export, quoted", "export DB_PASS='{}'", "", "p"),
    ("dotenv", "SECRET_KEY_BASE={}", "", "h64"),
    ("dotenv, quoted", "APP_KEY=\"base64:{}\"", "", "b44"),
    ("docker -e", "docker run -e POSTGRES_PASSWORD={} postgres", "", "p"),
    ("compose", "      MYSQL_ROOT_PASSWORD: {}\n", "", "p"),
    ("yaml", "db:\n  password: {}\n", "", "p"),
    ("yaml, quoted", "  api_key: \"{}\"\n", "", "a32"),
    ("yaml, letters", "password: {}\n", "", "lp"),
    ("toml", "token = \"{}\"", "", "a40"),
    ("ini", "password={}", "", "p"),
    ("properties", "spring.datasource.password={}", "", "p"),
    ("json in text", "{\"api_key\": \"{}\"}", "", "a32"),
    ("json in json", "{\\\"client_secret\\\": \\\"{}\\\"}", "", "a32"),
    ("python", "API_KEY = '{}'", "", "a32"),
    ("python dict", "config['secret'] = '{}'", "", "p"),
    ("javascript", "const apiKey = \"{}\";", "", "a32"),
    ("typescript", "const token: string = \"{}\";", "", "a32"),
    ("rust", "const TOKEN: &str = \"{}\";", "", "a32"),
    ("go", "apiKey := \"{}\"", "", "a32"),
    ("c", "setenv(\"API_TOKEN\", \"{}\", 1);", "", "a32"),
    ("php", "'password' => '{}',", "", "p"),
    ("ruby", "secret_key: \"{}\"", "", "a32"),
    ("java", "private String password = \"{}\";", "", "p"),
    ("shell option", "deploy --password {} --yes", "", "p"),
    ("shell option =", "deploy --api-key={} --yes", "", "a32"),
    ("terraform", "  admin_password = \"{}\"", "", "p"),
    ("bearer", "curl -H \"Authorization: Bearer {}\" https://x", "", "a40"),
    ("bearer in code", "headers = {\"Authorization\": f\"Bearer {}\"}", "", "a40"),
    ("basic", "Authorization: Basic {}", "", "B"),
    ("token scheme", "Authorization: token {}", "", "h40"),
    ("no scheme", "Authorization: {}", "", "a40"),
    ("x-api-key", "X-Api-Key: {}", "", "a32"),
    ("private token", "PRIVATE-TOKEN: {}", "", "a20"),
    ("cookie", "Cookie: session={}; theme=dark", "", "a32"),
    ("set-cookie", "Set-Cookie: sid={}; HttpOnly", "", "a32"),
    ("proxy authorization", "Proxy-Authorization: Basic {}", "", "B"),
    ("query", "GET /v1?access_token={}&x=1", "", "a32"),
    ("query key", "https://maps.example.org/api?key={}", "", "a39"),
    ("sas", "https://x.blob.core.windows.net/c?sv=2022&sig={}", "", "S43"),
    ("presigned", "https://b.s3.amazonaws.com/k?X-Amz-Signature={}", "", "h64"),
    ("postgres url", "postgres://app:{}@db:5432/app", "", "p"),
    ("mysql url", "mysql+pymysql://root:{}@localhost/app", "", "p"),
    ("mongodb url", "mongodb+srv://u:{}@c0.mongodb.net", "", "p"),
    ("redis url", "redis://:{}@cache:6379/0", "", "p"),
    ("amqp url", "amqp://guest:{}@mq", "", "p"),
    ("git url", "https://oauth2:{}@gitlab.com/a/b.git", "", "a26"),
    ("git url token", "https://{}@github.com/a/b.git", "", "a40"),
    ("escaped url", "\"url\":\"https:\\/\\/u:{}@h\\/x\"", "", "p"),
    ("ado dsn", "Server=db;User Id=sa;Password={};Encrypt=yes", "", "p"),
    ("azure storage", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x", "", "b86"),
    ("azure bus", "Endpoint=sb://x/;SharedAccessKeyName=r;SharedAccessKey={}", "", "b43"),
    ("libpq", "host=db user=app password={} dbname=x", "", "p"),
    ("go dsn", "app:{}@tcp(db:3306)/x", "", "p"),
    ("pgpass", "db.internal:5432:app:app:{}", "", "p"),
    ("netrc", "machine h login u password {}", "", "p"),
    ("netrc lines", "machine h\n  login u\n  password {}\n", "", "p"),
    ("npmrc", "//registry.npmjs.org/:_authToken={}", "", "a36"),
    ("npmrc auth", "_auth={}", "", "b40"),
    ("pypirc", "[pypi]\nusername = x\npassword = {}\n", "", "p"),
    ("docker config", "{\"auths\":{\"https://r\":{\"auth\":\"{}\"}}}", "", "B"),
    ("kube token", "    token: {}\n", "", "a60"),
    ("kube key", "    client-key-data: {}\n", "", "k"),
    ("kubernetes secret", "data:\n  db-password: {}\n", "", "b24"),
    ("curl -u", "curl -u admin:{} https://x", "", "p"),
    ("curl --user", "curl -s --user \"admin:{}\" https://x", "", "p"),
    ("sshpass", "sshpass -p {} ssh h", "", "p"),
    ("mysql -p", "mysql -u root -p{} app", "", "p"),
    ("redis-cli", "redis-cli -h c -a {} ping", "", "p"),
    ("sql", "ALTER USER app WITH PASSWORD '{}'", "", "p"),
    ("sql identified", "CREATE USER a IDENTIFIED BY PASSWORD '{}'", "", "p"),
    ("shadow", "root:$6$salt1234$|{}:19000:0", "", "a86"),
    ("bcrypt", "admin:$2b$|12${}", "", "a53"),
    ("htpasswd", "bob:$apr1$|x8f3kq2p${}", "", "a22"),
    ("slack webhook", "https://hooks.slack|.com/services/{}", "", "u9/u11/a24"),
    ("discord webhook", "https://discord.com/api/web|hooks/123456789012345678/{}", "", "a68"),
    ("otp", "otpauth://totp/x?secret={}&issuer=y", "", "O32"),
    ("wireguard", "[Interface]\nPrivateKey = {}=\n", "", "c43"),
    ("django", "SECRET_KEY = \"django-insecure-{}\"", "", "a50"),
    ("jwt secret", "JWT_SECRET={}", "", "p"),
    ("session secret", "session({ secret: \"{}\" })", "", "p"),
    ("passphrase", "passphrase: \"{}\"", "", "p"),
    ("signing key", "signing_key = \"{}\"", "", "h64"),
    ("encryption key", "ENCRYPTION_KEY={}", "", "h64"),
    ("any key", "license-key: {}\n", "", "a40"),
    ("heroku", "HEROKU_API_KEY={}", "", "g"),
    ("datadog", "DD_API_KEY={}", "", "h32"),
    ("cloudflare", "cloudflare_api_token = \"{}\"", "", "a40"),
    ("discord bot", "DISCORD_TOKEN={}", "", "a24.a6.a38"),
    ("twitter", "TWITTER_API_SECRET={}", "", "a50"),
    ("azure client secret", "AZURE_CLIENT_SECRET={}", "", "a34"),
    ("nuget", "<add key=\"ClearTextPassword\" value=\"{}\" />", "", "p"),
    ("xml", "<password>{}</password>", "", "p"),
    ("maven", "<server><username>u</username><passphrase>{}</passphrase></server>", "", "p"),
    ("env list", "[{\"name\":\"DB_PASSWORD\",\"value\":\"{}\"}]", "", "p"),
    ("zapier webhook", "https://hooks.zapier|.com/hooks/catch/1234567/{}/", "", "l7"),
    ("make webhook", "https://hook.eu1.make|.com/{}", "", "l32"),
    ("ifttt webhook", "https://maker.ifttt|.com/trigger/done/with/key/{}", "", "w43"),
    ("mattermost webhook", "https://chat.example.com/hooks/{}", "", "l26"),
    ("google chat webhook", "https://chat.googleapis.com/v1/spaces/A/messages?key=x&token={}", "", "w43"),
    ("pagerduty webhook", "https://events.pagerduty|.com/integration/{}/enqueue", "", "h32"),
    ("npm config, quoted", "npm config set '//registry.example.com/:_authToken' \"{}\"", "", "a36"),
    ("poetry", "poetry config --local pypi-token.pypi {}", "", "a36"),
    ("config, dotted", "npm config set -g 'shop.token' '{}'", "", "a36"),
    ("git config, dotted", "git config --global shop.api_token {}", "", "h40"),
    ("dotted", "shop.token = {}", "", "a20"),
    ("dotted, in YAML", "shop.api_token: {}", "", "h40"),
];

/// A deterministic generator of letters.
struct LetterGenerator(u64);

impl LetterGenerator {
    fn next(&mut self, of: &str) -> char {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = (self.0 >> 33) as usize % of.len();
        of.as_bytes()[at] as char
    }

    fn some(&mut self, n: usize, of: &str) -> String {
        (0..n).map(|_| self.next(of)).collect()
    }

    /// Expands the last column of a shape.
    fn secret(&mut self, what: &str) -> String {
        const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
        const DIGITS: &str = "0123456789";
        let alnum = format!("{LOWER}{}{DIGITS}", LOWER.to_uppercase());
        let base64 = format!("{alnum}+/");
        match what {
            "p" => {
                return format!(
                    "{}!{}{}",
                    self.some(5, LOWER),
                    self.some(2, DIGITS),
                    self.some(4, &alnum)
                );
            }
            "lp" => return format!("correcthorse{}", self.some(4, LOWER)),
            "B" => return STANDARD.encode(format!("user:{}", self.some(14, &alnum))),
            "k" => {
                return STANDARD.encode(format!(
                    "-----BEGIN RSA {} KEY-----\n{}",
                    "PRIVATE",
                    self.some(200, &base64)
                ));
            }
            "g" => {
                return ["8", "4", "4", "4", "12"]
                    .map(|n| self.some(n.parse().unwrap(), "0123456789abcdef"))
                    .join("-");
            }
            _ => {}
        }
        let mut out = String::new();
        let mut rest = what;
        while let Some(kind) = rest.chars().next() {
            rest = &rest[1..];
            let digits = rest.chars().take_while(char::is_ascii_digit).count();
            let Ok(n) = rest[..digits].parse() else {
                out.push(kind);
                continue;
            };
            rest = &rest[digits..];
            let of = match kind {
                'h' => "0123456789abcdef",
                'l' => "abcdefghijklmnopqrstuvwxyz0123456789",
                'u' | 'O' => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
                'U' => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
                'n' => DIGITS,
                'b' | 'c' => &base64,
                'w' => "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-",
                _ => &alnum,
            };
            out.push_str(&self.some(n, of));
        }
        out
    }
}

fn texts() -> Vec<(&'static str, String, String)> {
    let made = SHAPES.iter().enumerate().map(|(n, (name, around, fixed, rest))| {
        let secret = LetterGenerator(n as u64 + 1).secret(&rest.replace('|', ""));
        let text = around
            .replace('|', "")
            .replace("{}", &format!("{}{secret}", fixed.replace('|', "")));
        (*name, text, secret)
    });
    made.collect()
}

/// Whether the second half of the secret is still present.
fn survives(clean: &str, secret: &str) -> bool {
    clean.contains(&secret[secret.len() / 2..])
}

fn assert_none(what: &str, clean: impl Fn(&str) -> String) {
    let all = texts();
    assert!(all.len() >= 120, "{}", all.len());
    let left: Vec<_> = all
        .iter()
        .map(|(name, text, secret)| (name, clean(text), secret))
        .filter(|(_, clean, secret)| survives(clean, secret))
        .map(|(name, clean, _)| format!("{name}: {clean}"))
        .collect();
    assert!(
        left.is_empty(),
        "{what}: {} of {} are left\n{}",
        left.len(),
        all.len(),
        left.join("\n")
    );
}

/// A file of credentials is often passed on in base64.
#[test]
fn files_of_credentials_are_found_in_base64() {
    let redactor = Redactor::new(&[]);
    let dashes = "-".repeat(5);
    for file in [
        format!("{dashes}BEGIN RSA PRIVATE KEY{dashes}\nMIIEow\n"),
        "{\n  \"type\": \"service_account\",\n  \"private_key\": \"x\"\n}".to_owned(),
        "PORT=1\nOPENAI_API_KEY=0123456789abcdef\n".to_owned(),
        "A=b\nDB_PASSWORD=hunter2hunter2\n".to_owned(),
        format!("{{\"key\": \"sk-{}-api03-0123456789\"}}", "ant"),
    ] {
        for offset in 0..3 {
            let coded = STANDARD.encode(format!("{}{file}", "#".repeat(offset)));
            let clean = redactor
                .text(&format!("echo {coded} | base64 -d > .env"))
                .into_owned();
            assert_eq!(
                clean, "echo [redacted:encoded-credential] | base64 -d > .env",
                "{file}"
            );
        }
    }
    let piped = format!("echo {} | docker login -u ada --password-stdin", "q7Rt2LmX9vB4");
    assert_lacks(&redactor.text(&piped), "9vB4");
    let image = STANDARD.encode([0x89, b'P', b'N', b'G'].repeat(200));
    assert_eq!(redactor.text(&image), image);
}

#[test]
fn every_shape_is_found_in_a_text() {
    let redactor = Redactor::new(&[]);
    assert_none("text", |text| redactor.text(text).into_owned());
}

#[test]
fn every_shape_is_found_in_a_body_and_in_a_tools_arguments() {
    let redactor = Redactor::new(&[]);
    assert_none("body", |text| {
        let body = serde_json::json!({"messages": [{"role": "user", "content": text}]}).to_string();
        String::from_utf8(redactor.json(body.as_bytes()).into_owned()).unwrap()
    });
    assert_none("arguments", |text| {
        let arguments = serde_json::json!({"command": text}).to_string();
        let body = serde_json::json!({"function": {"arguments": arguments}}).to_string();
        let clean = redactor.json(body.as_bytes());
        let value: serde_json::Value = serde_json::from_slice(&clean).unwrap();
        let arguments = value["function"]["arguments"].as_str().unwrap().to_owned();
        serde_json::from_str::<serde_json::Value>(&arguments).unwrap_or_else(|e| panic!("{e}: {arguments}"));
        arguments
    });
}

/// Framings of JSON pieces: text before, between and after them.
const FRAMINGS: [(&str, [&str; 3]); 3] = [
    ("events", ["data: ", "\n\ndata: ", "\n\n"]),
    ("lines", ["", "\n", "\n"]),
    ("array", ["[", ",\r\n", "]"]),
];

#[test]
fn every_shape_is_found_in_a_stream_in_pieces() {
    let redactor = Redactor::new(&[]);
    for (name, [before, between, after]) in FRAMINGS {
        assert_none(name, |text| {
            let letters: Vec<char> = text.chars().collect();
            let pieces = letters.chunks(5).map(|piece| {
                let piece: String = piece.iter().collect();
                serde_json::json!({"type": "d", "delta": {"text": piece}}).to_string()
            });
            let pieces: Vec<String> = pieces.collect();
            let stream = [before, &pieces.join(between), after].concat();
            let clean = String::from_utf8(redactor.stream(stream.as_bytes()).into_owned()).unwrap();
            let inner = &clean[before.len()..clean.len() - after.len()];
            let texts = inner.split(between).map(|data| {
                let value: serde_json::Value = serde_json::from_str(data).unwrap();
                value["delta"]["text"].as_str().unwrap().to_owned()
            });
            texts.collect()
        });
    }
}

/// JSON members by their names, whatever the value, and members of an object of headers.
#[test]
fn members_are_known_by_their_names() {
    let redactor = Redactor::new(&[]);
    let secret = format!("{}{}", "q7Rt2LmX", "9vB4nK8s");
    for name in [
        "authorization",
        "Authorization",
        "authorization_token",
        "proxy-authorization",
        "access_token",
        "refreshToken",
        "id_token",
        "token",
        "bot_token",
        "client_secret",
        "clientSecret",
        "secret",
        "api_key",
        "apiKey",
        "x-api-key",
        "x-anything-key",
        "ocp-apim-subscription-key",
        "password",
        "passwd",
        "db_password",
        "passphrase",
        "private_key",
        "cookie",
        "set-cookie",
        "session-token",
        "aws_secret_access_key",
        "credential",
        "auth",
        "jwt",
    ] {
        let body =
            serde_json::json!({"a": 1, "mcp_servers": [{"type": "url", name: secret, "name": "docs"}]})
                .to_string();
        let clean = String::from_utf8(redactor.json(body.as_bytes()).into_owned()).unwrap();
        assert!(!survives(&clean, &secret), "{name}: {clean}");
        assert!(clean.contains(r#""name":"docs""#), "{clean}");
    }
    let body = serde_json::json!({"tools": [{"type": "mcp", "server_url": "https://x", "authorization": "word",
        "headers": {"X-Team": "short", "Other": "also this", "Accept": "text/plain"}, "require_approval": "never"}]});
    let clean = redactor.json(body.to_string().as_bytes()).into_owned();
    let value: serde_json::Value = serde_json::from_slice(&clean).unwrap();
    let tool = &value["tools"][0];
    assert_eq!(tool["headers"]["X-Team"], "[redacted:credential]");
    assert_eq!(tool["headers"]["Other"], "[redacted:credential]");
    assert_eq!(tool["headers"]["Accept"], "text/plain");
    assert_eq!(tool["require_approval"], "never");
}
