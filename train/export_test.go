package train

var FitCPU = fitCPU
