package main

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// serve serves the directory args[0] at $URL over https, with the authority args[1], and at $PROXY plays a proxy that knows
// the one server only, by the name example.com.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	s := httptest.NewUnstartedServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	ts.Defer(s.Close)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "example.com:443" {
			http.Error(w, r.Host, http.StatusForbidden)
			return
		}
		tunnel(w, s.Listener.Addr().String())
	}))
	ts.Defer(proxy.Close)
	ts.Setenv("URL", s.URL)
	ts.Setenv("PROXY", proxy.URL)
}

func tunnel(w http.ResponseWriter, to string) {
	there, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer there.Close()
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(here, there)
		here.Close()
	}()
	_, _ = io.Copy(there, here)
	there.Close()
	<-back
}
