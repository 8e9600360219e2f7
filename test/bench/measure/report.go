package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// record is a line as it is in the report; what was not measured is null.
type record struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Ours     *float64 `json:"ours"`
	Peer     *float64 `json:"peer"`
	PeerName string   `json:"peer_name"`
	Floor    *float64 `json:"floor"`
	Ratio    *float64 `json:"ratio"`
	Goal     string   `json:"goal"`
	Hard     bool     `json:"hard"`
	Met      bool     `json:"met"`
}

// JSON is {"lines": […]}.
func JSON(lines []Line) ([]byte, error) {
	out := struct {
		Lines []record `json:"lines"`
	}{Lines: []record{}}
	for _, l := range lines {
		out.Lines = append(out.Lines, record{
			Name: l.Name, Unit: l.Unit, Ours: number(l.Ours.Median()), Peer: number(l.Peer.Median()), PeerName: l.PeerName,
			Floor: number(l.Floor.Median()), Ratio: number(l.Ratio()), Goal: l.goal(), Hard: l.Goal.Hard, Met: l.Met(),
		})
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return append(b, '\n'), nil
}

// number keeps five digits, and nothing of what is none.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	if v != 0 {
		scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(v))))
		v = math.Round(v*scale) / scale
	}
	return &v
}

// Table prints the lines: medians, with the extremes in brackets.
func Table(out io.Writer, lines []Line) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LINE\tUNIT\tOURS\tPEER\tFLOOR\tRATIO\tGOAL\tMET")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%v\t%s\t%s\t%s\n", l.Name, l.Unit, l.Ours, l.Peer, l.Floor, ratio(l), l.goal(), met(l))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return nil
}

func ratio(l Line) string {
	if r := l.Ratio(); !math.IsNaN(r) {
		return fmt.Sprintf("%.3g", r)
	}
	return "-"
}

func met(l Line) string {
	switch {
	case l.Met():
		return "yes"
	case l.Goal.Hard:
		return "NO (hard)"
	}
	return "no"
}
