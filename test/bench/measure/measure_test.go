package measure

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestSeries(t *testing.T) {
	s := Series{4, 1, 3, 2}
	if s.Median() != 2.5 || s.Quantile(0.99) != 4 || s.Quantile(0) != 1 {
		t.Errorf("median %v, p99 %v, least %v", s.Median(), s.Quantile(0.99), s.Quantile(0))
	}
	if s.String() != "2.5 (1–4)" || (Series{}).String() != "-" || (Series{1234.5}).String() != "1234" {
		t.Errorf("%v, %v, %v", s, Series{}, Series{1234.5})
	}
	if !math.IsNaN(Series{}.Median()) {
		t.Error("the median of nothing is a number")
	}
}

func TestInterleave(t *testing.T) {
	var order []string
	probe := func(name string) Probe {
		return func(context.Context) (float64, error) {
			order = append(order, name)
			return float64(len(order)), nil
		}
	}
	got, err := Interleave(t.Context(), 2, probe("ours"), probe("peer"), probe("floor"))
	if err != nil || !slices.Equal(got[0], Series{1, 4}) || !slices.Equal(got[2], Series{3, 6}) {
		t.Errorf("%v, %v", got, err)
	}
	if strings.Join(order, " ") != "ours peer floor ours peer floor" {
		t.Errorf("the order is %v", order)
	}
	bad := errors.New("bad")
	if _, err := Interleave(t.Context(), 2, func(context.Context) (float64, error) { return 0, bad }); !errors.Is(err, bad) {
		t.Errorf("a probe that fails: %v", err)
	}
}

func TestGoals(t *testing.T) {
	ours, peer, floor := Series{110}, Series{100}, Series{50}
	for _, c := range []struct {
		goal  Goal
		ratio float64
		met   bool
		words string
	}{
		{Goal{Base: ToPeer, Limit: 1.15}, 1.1, true, "ratio to the peer ≤ 1.15"},
		{Goal{Base: ToPeer, Limit: 1.05}, 1.1, false, "ratio to the peer ≤ 1.05"},
		{Goal{Base: ToFloor, Limit: 2}, 2.2, false, "ratio to the floor ≤ 2"},
		{Goal{Base: ToFloor, Limit: 8, Offset: 40}, 7, true, "ratio to the floor ≤ 8"},
		{Goal{Base: Alone, Limit: 110, Strict: true, Note: "at p99"}, 1.1, false, "< 110 ms at p99"},
		{Goal{Base: Alone, Limit: 110}, 1.1, true, "≤ 110 ms"},
		{Goal{Base: Informal}, 1.1, true, "none"},
	} {
		l := Line{Unit: "ms", Ours: ours, Peer: peer, Floor: floor, Goal: c.goal}
		if math.Abs(l.Ratio()-c.ratio) > 1e-9 || l.Met() != c.met || l.goal() != c.words {
			t.Errorf("%+v: ratio %v, met %v, %q", c.goal, l.Ratio(), l.Met(), l.goal())
		}
	}
	nothing := Line{Goal: Goal{Base: ToPeer, Limit: 1}}
	if nothing.Met() {
		t.Error("what was not measured meets a goal")
	}
}

func TestReport(t *testing.T) {
	b, err := JSON([]Line{{Name: "a", Unit: "ms", Ours: Series{1.2345678}, PeerName: "none", Goal: Goal{Base: Alone, Limit: 1, Hard: true}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Lines []map[string]any }
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"floor", "goal", "hard", "met", "name", "ours", "peer", "peer_name", "ratio", "unit"}
	keys := make([]string, 0, len(want))
	for k := range got.Lines[0] {
		keys = append(keys, k)
	}
	if slices.Sort(keys); !slices.Equal(keys, want) {
		t.Errorf("the keys are %v", keys)
	}
	if got.Lines[0]["ours"] != 1.2346 || got.Lines[0]["peer"] != nil || got.Lines[0]["met"] != false {
		t.Errorf("%s", b)
	}
	var table strings.Builder
	if err := Table(&table, []Line{{Name: "a", Ours: Series{2}, Goal: Goal{Base: Alone, Limit: 1, Hard: true}}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "NO (hard)") {
		t.Errorf("%s", table.String())
	}
}
