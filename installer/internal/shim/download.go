package shim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"time"

	"quiesce/installer/internal/refusal"
	"quiesce/plugin/stage"
)

// download gets a URL, and looks into what came only when it has the digest.
func (l loader) download(ctx context.Context, want digests) (*Payload, error) {
	u, err := url.Parse(l.From)
	switch {
	case err != nil:
		return nil, refusal.New("shim: is no URL: %v", errors.Unwrap(err))
	case u.Scheme != "https" || u.Host == "":
		return nil, refusal.New("shim %s: only https://HOST/… is taken from the network", u.Redacted())
	case !slices.ContainsFunc(want, func(d digest) bool { return d.name == "" }):
		return nil, refusal.New("shim %s: what comes from the network needs its digest; give --sha256 HEX", plain(u))
	}
	l.From = plain(u)
	k, err := l.get(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", l.From, err)
	}
	if err := want.whole(l.From, k.sum); err != nil {
		return nil, errors.Join(err, k.f.Close())
	}
	if packed(k.f) {
		defer k.f.Close()
		return l.unpack(ctx, k)
	}
	p, err := l.fromFile(stage.File{Name: path.Base(u.Path), Size: k.size, SHA256: k.sum}, k.reader)
	if err != nil {
		return nil, errors.Join(err, k.f.Close())
	}
	p.whole, p.kept = k.sum, []*kept{k}
	return p, nil
}

// plain is a URL as it may be shown: without a password, and without a query, which may be a signature.
func plain(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func (l loader) get(ctx context.Context, u *url.URL) (*kept, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.total, fmt.Errorf("it took longer than %s", l.total))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watch := time.AfterFunc(l.stall, func() { stop(fmt.Errorf("nothing came for %s", l.stall)) })
	defer watch.Stop()
	client, err := l.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, explain(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", resp.Status)
	}
	if resp.ContentLength > l.packed {
		return nil, tooLarge(l.packed)
	}
	at, done := func(int64) {}, func() {}
	if l.Progress != nil {
		at, done = l.Progress(resp.ContentLength)
	}
	defer done()
	var n int64
	return l.keep(ctx, reading{ctx, resp.Body, func(more int) {
		watch.Reset(l.stall)
		n += int64(more)
		at(n)
	}}, l.packed)
}

// client has what Go does by itself: HTTPS_PROXY and NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR.
func (l loader) client() (*http.Client, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: l.stall, ForceAttemptHTTP2: true,
		DisableCompression: true, // the digest is of what the server has
	}
	if l.CAFile != "" {
		pool, err := authorities(l.CAFile)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if req.URL.Scheme != "https" {
			return fmt.Errorf("it redirects to %s, which is not https", plain(req.URL))
		}
		if len(via) >= 10 {
			return errors.New("it redirects more than ten times")
		}
		return nil
	}}, nil
}

// authorities are the machine's and those of a file.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read ca-file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, refusal.New("ca-file %s: has no certificate in PEM", file)
	}
	return pool, nil
}

// explain is an error of a request without the URL in it, and with what can be done.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w; name a file with its authority with --ca-file or SSL_CERT_FILE", err)
	}
	return err
}
