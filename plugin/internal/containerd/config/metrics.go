package config

import "context"

// ReadMetrics reads the TCP address on which metrics are served, imports included; empty: none.
func ReadMetrics(ctx context.Context, path string) (string, error) {
	tree, err := loadTree(ctx, path)
	if err != nil {
		return "", err
	}
	t, _ := tree["metrics"].(map[string]any)
	address, _ := t["address"].(string)
	return address, nil
}
