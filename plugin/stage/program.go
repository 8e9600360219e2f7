package stage

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// machines are the ELF machines of the architectures quiesce is built for.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "arm": elf.EM_ARM,
}

// checkProgram refuses what this node cannot execute.
func (t *Tree) checkProgram(at, name string) error {
	f, _, err := t.openRegular(at)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := CheckProgram(f); err != nil {
		return payloadError{fmt.Errorf("file %s: %w", name, err)}
	}
	return nil
}

// CheckProgram says why this machine cannot execute a file, if so.
func CheckProgram(r io.ReaderAt) error {
	e, err := elf.NewFile(r)
	if err != nil {
		return errors.New("is not an ELF program")
	}
	if e.Type != elf.ET_EXEC && e.Type != elf.ET_DYN {
		return fmt.Errorf("is an ELF file of type %v, not a program", e.Type)
	}
	if want := machines[runtime.GOARCH]; e.Machine != want {
		return fmt.Errorf("is built for %v, this node is %v", e.Machine, want)
	}
	return nil
}
