function adapter(vectors, solutions)
    % One file of answers for each problem in scope, in MATLAB or Octave; my_mkl is yours.
    files = dir(fullfile(vectors, '*.mat'));
    for k = 1:numel(files)
        P = load(fullfile(vectors, files(k).name));
        if ~strcmp(P.loss, 'squared') || size(P.kernels, 3) > 1 || ~P.intercept || isfield(P, 'sample_weight')
            continue                                    % out of scope: no file, and it is excluded
        end
        [dual_coef, weights, intercept] = my_mkl(P.kernels, P.y(:), P.C);
        save('-v7', fullfile(solutions, files(k).name), 'dual_coef', 'weights', 'intercept');
    end
end

function [beta, theta, b] = my_mkl(K, y, C)
    % Ridge regression with one kernel: (K + I/C) beta + b = y and sum(beta) = 0. Put your solver here.
    n = numel(y);
    x = [K + eye(n) / C, ones(n, 1); ones(1, n), 0] \ [y; 0];
    beta = x(1:n); theta = 1; b = x(end);
end
