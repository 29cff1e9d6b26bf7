// Package examples holds whole programs that import public packages only: hello is the README's, mlp and chargpt train
// on images and text, cnn and images with convolutions, regression, vae, gan and lstm on small data of their own,
// server answers requests while it trains.
//
// learned_test.go checks what they learn, readme_test.go the first steps that the README shows, pytorch_test.go the
// names and programs of docs/PYTORCH.md and docs/DATA.md. The test in curves_test.go replays loss curves: float32
// training gives the same bits everywhere, so the curves are compared to the last digit. half_test.go compares
// precisions, emu_test.go the emulated GPU with the CPU, resume_unix_test.go kills programs and has them go on.
package examples
