//! Programs that only read, each with the options that keep it so.
//!
//! An option is here because its manual (GNU coreutils 9, findutils 4.9, ripgrep 14, jq 1.7) says that it neither
//! writes a file nor runs a program. What is missing is asked about.

use super::options::Operands::{None as Nothing, OnePath, Paths, PatternPaths, Text};
use super::options::{Spec, spec};

/// What bash runs itself: found in no folder.
pub(super) const BUILTINS: &[&str] =
    &["cd", "pwd", "echo", "printf", "true", "false", ":", "test", "[", "type", "command", "exit", "wait"];

const SUM: &str = "-btz --binary --text --tag --zero";

const GREP: &str = "-EFGPwxzscvVLlqoHhbnraiUIRTyu -e= -m= -A= -B= -C= -f@ -d= -D= -# --extended-regexp \
    --fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --word-regexp --line-regexp \
    --null-data --no-messages --invert-match --version --help --max-count= --byte-offset --line-number \
    --line-buffered --with-filename --no-filename --label= --only-matching --quiet --silent --binary-files= --text \
    --directories= --devices= --recursive --dereference-recursive --include= --exclude= --exclude-from@ \
    --exclude-dir= --files-without-match --files-with-matches --count --initial-tab --null --before-context= \
    --after-context= --context= --color? --colour? --regexp= --file@";

const RG: &str = "-acFhHiIlLnNoPqsSuUvVwx.0p -e= -f@ -A= -B= -C= -g= -j= -m= -M= -r= -t= -T= -E= -d= -# --files \
    --after-context= --before-context= --context= --auto-hybrid-regex --binary --block-buffered --byte-offset \
    --case-sensitive --color= --colors= --column --no-column --context-separator= --no-context-separator --count \
    --count-matches --crlf --debug --encoding= --engine= --field-context-separator= --field-match-separator= \
    --file@ --files-with-matches --files-without-match --fixed-strings --follow --glob= --iglob= \
    --glob-case-insensitive --heading --no-heading --help --hidden --no-hidden --ignore-case --ignore-file@ \
    --include-zero --invert-match --json --line-buffered --line-number --no-line-number --line-regexp \
    --max-columns= --max-columns-preview --max-count= --max-depth= --max-filesize= --mmap --no-mmap --multiline \
    --multiline-dotall --no-config --no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files \
    --no-ignore-global --no-ignore-messages --no-ignore-parent --no-ignore-vcs --no-messages --no-filename \
    --with-filename --no-unicode --null --null-data --one-file-system --only-matching --passthru --pcre2 --pretty \
    --quiet --regexp= --replace= --smart-case --sort= --sortr= --stats --stop-on-nonmatch --text --threads= --trim \
    --type= --type-not= --type-list --unrestricted --version --vimgrep --word-regexp --path-separator=";

const LS: &str = "-aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I= -w= -T= --all --almost-all --author --escape \
    --block-size= --ignore-backups --color? --directory --dired --classify? --file-type --format= --full-time \
    --group-directories-first --no-group --human-readable --si --dereference --hide= --hyperlink? \
    --indicator-style= --inode --ignore= --kibibytes --numeric-uid-gid --literal --hide-control-chars \
    --show-control-chars --quote-name --quoting-style= --reverse --recursive --size --sort= --time= --time-style= \
    --tabsize= --width= --context --zero --help --version";

const DIFF: &str = "-qscuerynwbBEZtaTpNid -C= -U= -I= -W= -x= -F= --normal --brief --report-identical-files \
    --context? --unified? --ed --rcs --side-by-side --width= --left-column --suppress-common-lines --show-c-function \
    --show-function-line= --label= --expand-tabs --initial-tab --tabsize= --suppress-blank-empty --recursive \
    --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case --exclude= --exclude-from@ \
    --starting-file= --ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change \
    --ignore-all-space --ignore-blank-lines --ignore-matching-lines= --text --strip-trailing-cr --minimal \
    --horizon-lines= --speed-large-files --color? --version --help";

const FD: &str = "-HIuasigFpL0q1 -d= -t= -e= -E= -c= -j= -S= --hidden --no-ignore --no-ignore-vcs --unrestricted \
    --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --follow --full-path \
    --print0 --max-depth= --min-depth= --exact-depth= --exclude= --prune --type= --extension= --size= \
    --changed-within= --changed-before= --owner= --color= --threads= --max-results= --quiet --show-errors \
    --strip-cwd-prefix --version --help";

const JQ: &str = "-ncCMrsSajeR --compact-output --null-input --raw-input --slurp --color-output \
    --monochrome-output --raw-output --raw-output0 --join-output --ascii-output --sort-keys --tab --unbuffered \
    --exit-status --indent= --seq --stream --version --help";

/// The table. `find`, `sed`, `awk`, `git`, `test` and the version questions have rules of their own.
pub(super) const PROGRAMS: &[Spec] = &[
    spec("ls", Paths, LS).harmless(),
    spec("dir", Paths, LS).harmless(),
    spec(
        "cat",
        Paths,
        "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting \
         --help --version",
    )
    .harmless(),
    spec("tac", Paths, "-br -s= --before --regex --separator=").harmless(),
    spec("head", Paths, "-qvz -n= -c= -# --lines= --bytes= --quiet --silent --verbose --zero-terminated --help").harmless(),
    spec("tail", Paths, "-qvzr -n= -c= -# --lines= --bytes= --quiet --silent --verbose --zero-terminated --help")
        .harmless(),
    spec("wc", Paths, "-clmwL --bytes --chars --lines --words --max-line-length --total= --help --version").harmless(),
    spec(
        "nl",
        Paths,
        "-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering= --number-format= --number-width= \
         --number-separator= --starting-line-number=",
    )
    .harmless(),
    spec(
        "cut",
        Paths,
        "-snz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement --only-delimited \
         --output-delimiter= --zero-terminated",
    )
    .harmless(),
    spec("paste", Paths, "-sz -d= --delimiters= --serial --zero-terminated").harmless(),
    spec("tr", Text, "-cCdst --complement --delete --squeeze-repeats --truncate-set1"),
    spec("rev", Paths, "").harmless(),
    spec(
        "uniq",
        OnePath,
        "-cdDiuz -f= -s= -w= --count --repeated --all-repeated? --skip-fields= --group? --ignore-case --skip-chars= \
         --unique --zero-terminated --check-chars=",
    ),
    spec(
        "sort",
        Paths,
        "-bdfgiMhnRrVcCmsuz -k= -t= -S= --ignore-leading-blanks --dictionary-order --ignore-case \
         --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort \
         --reverse --sort= --version-sort --check? --key= --merge --stable --field-separator= --unique \
         --zero-terminated --parallel= --buffer-size= --debug --help --version",
    ),
    spec("comm", Paths, "-123z --check-order --nocheck-order --output-delimiter= --total --zero-terminated").harmless(),
    spec("join", Paths, "-iz -a= -e= -j= -o= -t= -v= -1= -2= --check-order --nocheck-order --header").harmless(),
    spec("column", Paths, "-tensLx -c= -s= -o= -N= -R= -H= --table --separator= --output-separator= --table-columns="),
    spec("fold", Paths, "-bs -w= --bytes --spaces --width=").harmless(),
    spec("fmt", Paths, "-cstu -w= -p= -g= --width= --split-only --uniform-spacing").harmless(),
    spec("expand", Paths, "-i -t= --initial --tabs=").harmless(),
    spec("unexpand", Paths, "-a -t= --all --tabs= --first-only").harmless(),
    spec("seq", Text, "-w -f= -s= --equal-width --format= --separator="),
    spec("basename", Text, "-az -s= --multiple --suffix= --zero"),
    spec("dirname", Text, "-z --zero"),
    spec(
        "realpath",
        Paths,
        "-emLPqszL --canonicalize-existing --canonicalize-missing --logical --physical --quiet --relative-to@ \
         --relative-base@ --strip --no-symlinks --zero",
    )
    .harmless(),
    spec(
        "readlink",
        Paths,
        "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent \
         --verbose --zero",
    )
    .harmless(),
    spec("stat", Paths, "-LftxsrlnqF -c= --dereference --file-system --format= --printf= --terse").harmless(),
    spec(
        "file",
        Paths,
        "-bcEhiIkLlNnprsSv0 --brief --mime --mime-type --mime-encoding --dereference --no-dereference --extension \
         --keep-going --raw --separator= --print0 --version",
    ),
    spec(
        "du",
        Paths,
        "-0abcDHhklLmPSsx -d= -B= -t= --all --apparent-size --block-size= --bytes --total --dereference-args \
         --max-depth= --human-readable --inodes --count-links --dereference --no-dereference --separate-dirs --si \
         --summarize --threshold= --time? --time-style= --exclude= --one-file-system",
    )
    .harmless(),
    spec(
        "df",
        Paths,
        "-aBhHiklPTt --all --block-size= --human-readable --si --inodes --local --no-sync --portability --print-type \
         --total --type= --exclude-type= --output?",
    )
    .harmless(),
    spec(
        "tree",
        Paths,
        "-adfilxpsugDFrtUcAnCSJX -L= -I= -P= -H= -T= --gitignore --dirsfirst --filesfirst --noreport --prune --du --si \
         --inodes --device --charset= --filelimit= --ignore-case --matchdirs --sort= --timefmt= --nolinks --version",
    ),
    spec("diff", Paths, DIFF),
    spec("cmp", Paths, "-bls -i= -n= --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent").harmless(),
    spec("md5sum", Paths, SUM).harmless(),
    spec("sha1sum", Paths, SUM).harmless(),
    spec("sha256sum", Paths, SUM).harmless(),
    spec("sha512sum", Paths, SUM).harmless(),
    spec("b2sum", Paths, SUM).harmless(),
    spec("cksum", Paths, "-a= --algorithm= --untagged --tag --base64").harmless(),
    spec("sum", Paths, "-rs --sysv").harmless(),
    spec("shasum", Paths, "-bt -a= --algorithm= --binary --text"),
    spec("strings", Paths, "-afowd -n= -t= -e= -# --all --print-file-name --bytes= --radix= --encoding="),
    spec("od", Paths, "-abcdfilosvx -A= -j= -N= -t= -w? --address-radix= --skip-bytes= --read-bytes= --format=").harmless(),
    spec("hexdump", Paths, "-bcCdovx -n= -s= --canonical --length= --skip= --no-squeezing"),
    spec("hd", Paths, "-bcCdovx -n= -s="),
    spec("xxd", OnePath, "-abeiEpu -c= -g= -l= -s= -o="),
    spec("base64", Paths, "-dDi -w= --decode --ignore-garbage --wrap="),
    spec("base32", Paths, "-di -w= --decode --ignore-garbage --wrap="),
    spec("grep", PatternPaths, GREP).pattern("-e -f --regexp --file").harmless(),
    spec("egrep", PatternPaths, GREP).pattern("-e -f --regexp --file").harmless(),
    spec("fgrep", PatternPaths, GREP).pattern("-e -f --regexp --file").harmless(),
    spec("rg", PatternPaths, RG).pattern("-e -f --regexp --file --files --type-list --version"),
    spec("fd", PatternPaths, FD),
    spec("fdfind", PatternPaths, FD),
    spec("jq", PatternPaths, JQ),
    spec("pwd", Nothing, "-LP"),
    spec("whoami", Nothing, "--version"),
    spec("id", Text, "-aGgnruzZ --group --groups --name --real --user --zero"),
    spec("groups", Text, ""),
    spec("logname", Nothing, ""),
    spec("tty", Nothing, "-s"),
    spec("arch", Nothing, ""),
    spec("nproc", Nothing, "--all --ignore="),
    spec(
        "uname",
        Nothing,
        "-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor \
         --hardware-platform --operating-system",
    ),
    spec("hostname", Nothing, "-fsidI"),
    spec("uptime", Nothing, "-ps --pretty --since"),
    spec("free", Nothing, "-bkmghtwv --bytes --kilo --mega --giga --human --total --wide"),
    spec("locale", Nothing, "-am"),
    spec("getconf", Text, "-a"),
    spec("which", Text, "-as --all"),
    spec("type", Text, "-aftPp"),
    spec("sleep", Text, ""),
    spec("exit", Text, ""),
    spec("wait", Text, ""),
    spec("true", Text, ""),
    spec("false", Text, ""),
    spec(":", Text, ""),
    spec("lsb_release", Nothing, "-aidrcs"),
    spec("lscpu", Nothing, "-aeJpy"),
    spec("zcat", Paths, "-f").harmless(),
    spec("cal", Text, "-13jmsy -n="),
    spec("expr", Text, ""),
];

/// Programs whose version question runs no project code. Not here, since a file of the workspace makes them load code
/// first: yarn (`yarnPath`), gradle and mvn (JVM options), bazel (`tools/bazel`), composer and poetry (plugins), dotnet
/// (`global.json`), pytest (`addopts`), pnpm (`packageManager`).
pub(super) const VERSIONED: &[&str] = &[
    "awk",
    "bash",
    "bun",
    "cargo",
    "clang",
    "clang++",
    "cmake",
    "curl",
    "deno",
    "docker",
    "elixir",
    "emacs",
    "fish",
    "find",
    "g++",
    "gawk",
    "gcc",
    "gdb",
    "gh",
    "git",
    "go",
    "grep",
    "java",
    "javac",
    "jq",
    "julia",
    "just",
    "lua",
    "make",
    "meson",
    "mysql",
    "ninja",
    "node",
    "npm",
    "nvim",
    "perl",
    "php",
    "pip",
    "pip3",
    "podman",
    "protoc",
    "psql",
    "python",
    "python2",
    "python3",
    "R",
    "rg",
    "ruby",
    "ruff",
    "rustc",
    "rustfmt",
    "rustup",
    "sed",
    "sh",
    "sqlite3",
    "ssh",
    "tar",
    "terraform",
    "tmux",
    "tofu",
    "tree",
    "tsc",
    "uv",
    "vim",
    "wget",
    "zig",
    "zsh",
];
