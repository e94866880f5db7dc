library(jsonlite)

my_mkl <- function(K, y, C) {  # ridge regression with one kernel; put your solver here
  n <- length(y)
  x <- solve(rbind(cbind(K[[1]] + diag(n) / C, 1), c(rep(1, n), 0)), c(y, 0))
  list(dual_coef = x[1:n], weights = I(1), intercept = x[n + 1])
}

folders <- commandArgs(trailingOnly = TRUE)  # of problems and of solutions
for (name in fromJSON(file.path(folders[1], "index.json"))$problems$name) {
  P <- fromJSON(file.path(folders[1], paste0(name, ".json")))
  shape <- P$kernels$shape
  if (P$loss != "squared" || shape[1] > 1 || !P$intercept || !is.null(P$sample_weight)) next  # out of scope
  rows <- as.matrix(read.csv(file.path(folders[1], P$kernels$file), header = FALSE))
  K <- lapply(seq_len(shape[1]), function(m) rows[(m - 1) * shape[2] + seq_len(shape[2]), ])
  S <- my_mkl(K, P$y, P$C)
  write_json(S, file.path(folders[2], paste0(name, ".json")), auto_unbox = TRUE, digits = NA)
}
