// targets: sm_90 gpu
