package stage

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// acl is system.posix_acl_access (acl(5)) in the kernel's form: u::rw, u:1:r, g::-, m::r, o::-.
var acl = []byte("\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\x01\x00\x00\x00" + "\x04\x00\x00\x00\xff\xff\xff\xff" +
	"\x10\x00\x04\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff")

// TestWriteKeepsExtendedAttributes: notes of users, security modules' and ACLs of a file are those of the next one.
func TestWriteKeepsExtendedAttributes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.toml")
	check(t, os.WriteFile(path, []byte("old"), 0o640))
	want := map[string][]byte{"user.note": []byte("of somebody's"), "user.empty": nil, "system.posix_acl_access": acl}
	if os.Geteuid() == 0 {
		want["security.quiesce-test"] = []byte("label")
	}
	for name, value := range want {
		if err := syscall.Setxattr(path, name, value, 0); err != nil {
			t.Fatalf("this test needs a temporary directory with extended attributes and ACLs, set TMPDIR: %s: %v", name, err)
		}
	}
	tree, err := OpenTree(dir)
	check(t, err)
	defer tree.Close()
	fi, err := os.Stat(path)
	check(t, err)
	check(t, tree.WriteBytes("config.toml", []byte("new"), Attr{fi.Mode().Perm(), os.Geteuid(), os.Getegid()}))
	now, err := tree.xattrs("config.toml")
	check(t, err)
	got := map[string][]byte{}
	for _, x := range now {
		got[x.name] = x.value
	}
	for name, value := range want {
		if v, ok := got[name]; !ok || !bytes.Equal(v, value) {
			t.Errorf("%s is %q, %v; want %q", name, v, ok, value)
		}
	}
	if after, err := os.Stat(path); err != nil || after.Mode() != fi.Mode() {
		t.Errorf("the mode is %v, was %v, %v", after.Mode(), fi.Mode(), err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "new" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// TestAnAttributeThatCannotBeKept is named, and the sums that the kernel makes of contents are none to keep.
func TestAnAttributeThatCannotBeKept(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	check(t, err)
	defer f.Close()
	err = fill(f, strings.NewReader("new"), Attr{0o644, os.Geteuid(), os.Getegid()}, []xattr{{"nosuch.attribute", []byte("x")}})
	if err == nil || !strings.Contains(err.Error(), "nosuch.attribute") {
		t.Errorf("got %v", err)
	}
	for name, want := range map[string]bool{"user.x": true, "security.selinux": true, "system.posix_acl_access": true, "security.ima": false, "security.evm": false, "trusted.x": false} {
		if keeps(name) != want {
			t.Errorf("keeps(%q) is %v", name, !want)
		}
	}
}
