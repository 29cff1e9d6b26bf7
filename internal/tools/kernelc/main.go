package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	p := &project{root: ".", cache: &cache{dir: "build/kernelc"}}
	flags := flag.NewFlagSet("check", flag.ExitOnError)
	flags.Usage = usage
	var how thoroughness
	flags.IntVar(&how.part, "part", 1, "")
	flags.StringVar(&how.seed, "seed", "", "")
	flags.StringVar(&how.before, "before", "", "")
	flags.IntVar(&how.texts, "texts", 8, "")
	flags.BoolVar(&how.again, "again", false, "")
	flags.StringVar(&how.only, "only", "", "")
	flags.BoolVar(&how.frozen, "frozen", false, "")
	if len(os.Args) < 2 || flags.Parse(os.Args[2:]) != nil || flags.NArg() > 0 {
		usage()
	}
	if how.again {
		p.cache = nil
	}
	var err error
	switch os.Args[1] {
	case "build":
		err = p.build()
	case "check":
		err = p.check(os.Stdout, how)
	default:
		usage()
	}
	if err = errors.Join(err, p.cache.prune()); err != nil {
		fmt.Fprintln(os.Stderr, "kernelc:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, `usage, in the root of the repository:
	kernelc build
	kernelc check [-again] [-frozen]
	kernelc check -only PATTERN
	kernelc check -part N [-seed TEXT] [-before MANIFEST] [-texts N] [-frozen]
-only P    compile kernels with names such as norm_*, and pass their cubins and PTX through the gates
-part N    compile one image of N again; which ones depends on the seed
-before F  with -part: and up to 16 images of those that an earlier manifest does not have
-texts N   assemble so many texts that are not on record
-again     assemble PTX that is on record, too, and take nothing from the cache, build/kernelc
-frozen    do not write the record, and without -part fail where it is not complete`)
	os.Exit(2)
}
