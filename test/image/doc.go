// Package image builds the images of the Dockerfile without a registry and runs them on a real node as the manifests do.
package image
