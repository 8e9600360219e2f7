package shim_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quiesce/installer/internal/refusal"
	"quiesce/installer/internal/shim"
)

// serve plays a server of shims, and gives its authority.
func serve(t *testing.T, handler http.HandlerFunc) (url, ca string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are refused
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	check(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
	return s.URL, ca
}

// shelf is a server with shims, and others that nobody should take; plain is one without TLS.
func shelf(t *testing.T, plain string, archive []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/" + a, "/x":
			_, _ = w.Write(program("a"))
		case "/x.tar.gz":
			w.Header().Set("Content-Encoding", "gzip") // as some servers have it
			_, _ = w.Write(archive)
		case "/evil.tar.gz":
			_, _ = w.Write(packed(t, item{name: "../" + a, body: program("a")}))
		case "/moved":
			http.Redirect(w, r, "/"+a, http.StatusFound)
		case "/down":
			http.Redirect(w, r, plain+"/"+a, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(program("a"))
		case "/huge":
			w.Header().Set("Content-Length", "1000000000000")
		default:
			http.NotFound(w, r)
		}
	}
}

// download is what is asked for, and what comes of it.
type download struct {
	from, file, ca string
	sums           []string
	want           string // of the error
	refused        bool
	unasked        bool // the server was not asked
}

func downloads(t *testing.T, url, plain string, archive []byte) map[string]download {
	sum := hexSum(program("a"))
	return map[string]download{
		"a shim":              {from: url + "/" + a, sums: []string{sum, a + "=" + sum}},
		"under another name":  {from: url + "/x", file: a, sums: []string{sum}},
		"with a query":        {from: url + "/" + a + "?token=secret", sums: []string{sum}},
		"a tar.gz":            {from: url + "/x.tar.gz", sums: []string{hexSum(archive), a + "=" + sum}},
		"redirected":          {from: url + "/moved", file: a, sums: []string{sum}},
		"no digest":           {from: url + "/" + a, want: "needs its digest", refused: true, unasked: true},
		"of a part only":      {from: url + "/x.tar.gz", sums: []string{a + "=" + sum}, want: "needs its digest", refused: true, unasked: true},
		"a bad digest":        {from: url + "/" + a, sums: []string{"abc"}, want: "64 hex digits", refused: true, unasked: true},
		"another digest":      {from: url + "/x.tar.gz?token=secret", sums: []string{sum}, want: "its sha256 is " + hexSum(archive)},
		"an evil archive":     {from: url + "/evil.tar.gz", sums: []string{hexSum(packed(t, item{name: "../" + a, body: program("a")}))}, want: "leads out of it", refused: true},
		"no name":             {from: url + "/x", sums: []string{sum}, want: "--runtime-type", refused: true},
		"http":                {from: plain + "/" + a, sums: []string{sum}, want: "only https", refused: true, unasked: true},
		"another scheme":      {from: "ftp://user:secret@h/" + a, sums: []string{sum}, want: "only https", refused: true, unasked: true},
		"no host":             {from: "https:///" + a, sums: []string{sum}, want: "only https", refused: true, unasked: true},
		"no URL":              {from: "https://h:x/" + a, sums: []string{sum}, want: "invalid port", refused: true, unasked: true},
		"redirected to http":  {from: url + "/down", file: a, sums: []string{sum}, want: "not https"},
		"for ever":            {from: url + "/loop", file: a, sums: []string{sum}, want: "more than ten times"},
		"not there":           {from: url + "/none?token=secret", file: a, sums: []string{sum}, want: "404 Not Found"},
		"cut":                 {from: url + "/cut", file: a, sums: []string{sum}, want: "unexpected EOF"},
		"huge":                {from: url + "/huge", file: a, sums: []string{sum}, want: "larger than the 512 MiB", refused: true},
		"a strange authority": {from: url + "/" + a + "?token=secret", ca: "-", sums: []string{sum}, want: "--ca-file or SSL_CERT_FILE", unasked: true},
		"no such authority":   {from: url + "/" + a, ca: "/none", sums: []string{sum}, want: "read ca-file", unasked: true},
		"no authority":        {from: url + "/" + a, ca: "/proc/self/exe", sums: []string{sum}, want: "no certificate in PEM", refused: true, unasked: true},
	}
}

func TestDownload(t *testing.T) {
	archive := packed(t, item{name: a, body: program("a")})
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	asked := 0
	handler := shelf(t, plain.URL, archive)
	url, ca := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		handler(w, r)
	})
	for name, tt := range downloads(t, url, plain.URL, archive) {
		t.Run(name, func(t *testing.T) {
			asked = 0
			tt.try(t, ca)
			if tt.unasked != (asked == 0) {
				t.Errorf("the server was asked %d times", asked)
			}
		})
	}
}

// try loads it; ca is the server's authority.
func (tt download) try(t *testing.T, ca string) {
	t.Helper()
	authority := map[string]string{"": ca, "-": ""}
	if _, ok := authority[tt.ca]; !ok {
		authority[tt.ca] = tt.ca
	}
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "only"), 0o700))
	var drawn int64
	p, err := shim.Load(t.Context(), shim.Request{
		From: tt.from, File: tt.file, CAFile: authority[tt.ca], SHA256: tt.sums, Scratch: dir,
		Progress: func(int64) (func(int64), func()) { return func(n int64) { drawn = n }, func() {} },
	})
	wantAlone(t, dir)
	if _, refused := errors.AsType[*refusal.Error](err); refused != tt.refused {
		t.Errorf("refused: %t", refused)
	}
	if tt.want != "" {
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want %q", err, tt.want)
		}
		return
	}
	check(t, err)
	if p.Shim != a || p.Files[0].SHA256 != hexSum(program("a")) || drawn == 0 {
		t.Errorf("%+v, %d bytes drawn", p, drawn)
	}
	wantFile(t, p, 0)
	check(t, p.Close())
}

func TestDownloadInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url, ca := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(program("a"))
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
	})
	dir := t.TempDir()
	_, err := shim.Load(ctx, shim.Request{From: url + "/" + a, CAFile: ca, SHA256: []string{strings.Repeat("0", 64)}, Scratch: dir})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
