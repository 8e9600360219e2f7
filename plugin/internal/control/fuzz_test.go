package control

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// FuzzRequest sends anything to every verb: a request that is refused changes nothing, one that is taken does what it says.
func FuzzRequest(f *testing.F) {
	verbs := []string{"hold", "release", "fence", "drain", "status"}
	for i := range verbs {
		f.Add(uint8(i), []byte(`{"who":"me"}`))
		f.Add(uint8(i), []byte(`{"up":true}`))
	}
	f.Add(uint8(0), []byte(`{"who":"me","WHO":"you","up":1}`))
	f.Add(uint8(0), []byte(`{"who":"\u001b[2J"}{}`))
	f.Fuzz(func(t *testing.T, verb uint8, body []byte) {
		b := &backend{held: "before"}
		h := handler(t.Context(), b)
		w := httptest.NewRecorder()
		name := verbs[int(verb)%len(verbs)]
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/"+name, bytes.NewReader(body)))
		if taken := w.Code == http.StatusNoContent; !taken {
			if w.Code < 400 || b.held != "before" || b.fenced {
				t.Errorf("%s %q: code %d, held %q, fenced %v", name, body, w.Code, b.held, b.fenced)
			}
			return
		}
		var said Request
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&said); err != nil {
			t.Fatalf("%s %q was taken: %v", name, body, err)
		}
		want := map[string]string{"hold": said.Who, "release": ""}
		if who, ok := want[name]; ok && (b.held != who || name == "hold" && who == "") || !ok && b.held != "before" {
			t.Errorf("%s %q: held %q", name, body, b.held)
		}
		if b.fenced != (name == "fence" && said.Up) {
			t.Errorf("%s %q: fenced %v", name, body, b.fenced)
		}
	})
}
