package repo

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quiesce/plugin/stage"
)

const root = "../.."

// files lists the files of the module with one of the extensions.
func files(t *testing.T, exts ...string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "out", "bin", "testdata"}, d.Name()) {
			return fs.SkipDir
		}
		if !d.IsDir() && slices.Contains(exts, filepath.Ext(p)) {
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatalf("no file with %v", exts)
	}
	return out
}

func TestEveryPackageIsDocumentedOnce(t *testing.T) {
	docs := map[string]int{}
	for _, f := range files(t, ".go") {
		dir := filepath.Dir(f)
		docs[dir] += 0
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		ast, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.Doc != nil {
			docs[dir]++
		}
	}
	for dir, n := range docs {
		if n != 1 {
			t.Errorf("%s has %d package comments, want one", dir, n)
		}
	}
}

// TestImportDirection keeps what the design forbids: package → what it must not import, directly or not.
func TestImportDirection(t *testing.T) {
	core := []string{"github.com/containerd/nri", "github.com/coreos/go-systemd", "k8s.io/cri-api", "google.golang.org/grpc", "github.com/prometheus"}
	forbidden := map[string][]string{
		"quiesce/plugin/internal/node": core, "quiesce/plugin/internal/gate": core, "quiesce/plugin/stage": core,
		"quiesce/installer": {"quiesce/plugin/internal", "github.com/containerd/nri", "k8s.io/cri-api", "google.golang.org/grpc"},
		"quiesce/plugin":    {"quiesce/installer", "quiesce/test", "k8s.io/client-go"},
	}
	for pkg, bad := range forbidden {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatalf("list what %s imports: %v", pkg, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			for _, b := range bad {
				if dep == b || strings.HasPrefix(dep, b+"/") {
					t.Errorf("%s imports %s", pkg, dep)
				}
			}
		}
	}
}

func TestThePrefixIsWrittenOnce(t *testing.T) {
	for _, f := range files(t, ".go") {
		if strings.HasSuffix(f, "_test.go") || strings.HasPrefix(f, filepath.Join(root, "test")) {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			code, _, _ := strings.Cut(line, "//")
			if strings.Contains(code, `"`+stage.Prefix) && !strings.Contains(code, "const Prefix") {
				t.Errorf("%s writes the prefix itself: %s", f, strings.TrimSpace(line))
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for _, f := range files(t, ".go") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(b), "\n")
		if len(lines) > 320 && !strings.HasSuffix(f, "_test.go") {
			t.Errorf("%s has %d lines", f, len(lines))
		}
		begin, name := 0, ""
		for i, l := range lines {
			switch {
			case strings.HasPrefix(l, "func "):
				begin, name = i, l
			case l == "}" && begin > 0:
				if i-begin > 60 && !strings.HasSuffix(f, "_test.go") {
					t.Errorf("%s:%d: %d lines: %s", f, begin+1, i-begin, name)
				}
				begin = 0
			}
		}
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range files(t, ".go") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "time."+"Sleep(") {
			t.Errorf("%s sleeps: wait for the condition instead", f)
		}
	}
}

// TestDocsNameWhatExists follows the links of the documents to files of the repository.
func TestDocsNameWhatExists(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)`)
	for _, f := range files(t, ".md") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(f), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", f, m[1])
			}
		}
	}
}

func TestTheInstallerJobMountsTheInboxOnly(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "manifests/installer-job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "hostPath:") && !strings.Contains(line, "/var/lib/quiesce/inbox") && !strings.Contains(line, "/var/lib/quiesce/results") {
			t.Errorf("it mounts %s", strings.TrimSpace(line))
		}
		for _, word := range []string{"privileged: true", "hostPID", "hostNetwork"} {
			if strings.Contains(line, word) {
				t.Errorf("it asks for %s", word)
			}
		}
	}
}
