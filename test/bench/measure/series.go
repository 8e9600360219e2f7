package measure

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Series are the samples of one thing, in the unit of its line.
type Series []float64

// Median is NaN without samples.
func (s Series) Median() float64 { return s.Quantile(0.5) }

// Quantile is the nearest-rank quantile, the mean of the two in the middle for an even median; NaN without samples.
func (s Series) Quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	if q == 0.5 && len(s)%2 == 0 {
		return (sorted[len(s)/2-1] + sorted[len(s)/2]) / 2
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(s))))-1)]
}

// String is the median, with the extremes if there are several samples.
func (s Series) String() string {
	switch len(s) {
	case 0:
		return "-"
	case 1:
		return short(s[0])
	}
	return fmt.Sprintf("%s (%s–%s)", short(s.Median()), short(slices.Min(s)), short(slices.Max(s)))
}

// short is a figure with three digits.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// Probe takes one sample.
type Probe func(ctx context.Context) (float64, error)

// Interleave takes a sample of each probe in turn, rounds times, and returns a series for each probe. A change of the
// machine's mood meets all of them alike.
func Interleave(ctx context.Context, rounds int, probes ...Probe) ([]Series, error) {
	out := make([]Series, len(probes))
	for round := range rounds {
		for i, p := range probes {
			v, err := p(ctx)
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", round+1, err)
			}
			out[i] = append(out[i], v)
		}
	}
	return out, nil
}
