package drain

import (
	"testing"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// TestDrain_a stops the services of a node under a database that is being written to: with quiesce, and as people have
// it today.
func TestDrain_a(t *testing.T) {
	t.Parallel()
	image, err := PostgresImage(t.Context(), t.TempDir())
	check(t, err)
	for _, w := range Ways() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			ctx, l, k := setup(t, lab.Options{Name: "drain-a", NoHost: !w.Clean, Node: node.Config{Images: []node.Image{image}}})
			d, err := StartDatabase(ctx, l, k)
			check(t, err)
			check(t, d.Load(ctx, 1500))
			e, err := d.Stop(ctx, w, nil)
			check(t, err)
			t.Logf("%s: %+v", w.Name, e)
			if e.Clean != w.Clean || e.Recovery == w.Clean || e.Lost > 0 || e.Committed <= 1000 {
				before, _ := l.ReadFile(pgData + "/before.log")
				t.Errorf("%+v\n%s\n%s", e, before, d.Log())
			}
			if !w.Clean {
				return
			}
			r := report(ctx, t, l)
			check(t, r.InOrder("bench", "postgres", "net"))
			for c, o := range r.outcomes() {
				if o != "exited" {
					t.Errorf("%s: %s", c, o)
				}
			}
		})
	}
}
