// Package manifests tests what an operator applies: every object is rendered and read strictly as its API type.
package manifests
