function simplemkl(problem, solution, tolerance, solver)
    % Sparse MKL by a function of the SimpleMKL toolbox, in MATLAB or Octave: mklsvm, or the one that is named.
    %
    % [d, w, b, pos] = mklsvm(K, y, C, options, verbose) minimises 1/2 sum_m ||f_m||^2 / d_m + C sum_i xi_i over d >= 0,
    % sum(d) = 1, and the scores are sum_m d_m K_m(:, pos) * w + b. This is our problem for p = 1 with the same C:
    % theta = d, beta(pos) = w = alpha(pos) .* y(pos) and 0 elsewhere, and b is b. Nothing is scaled.
    P = load(problem);
    if ~strcmp(P.loss, 'hinge') || ~strcmp(P.regularizer, 'Lp') || P.regularizer_p ~= 1 ...
            || ~P.intercept || isfield(P, 'sample_weight')
        error('simplemkl is for the hinge loss with an intercept, p = 1 and no weights of samples');
    end
    if nargin < 4
        solver = 'mklsvm';
    end
    options = struct('algo', 'svmclass', 'efficientkernel', 0, 'verbosesvm', 0, 'miniter', 0, 'nbitermax', 500, ...
        'stopdualitygap', 1, 'stopKKT', 0, 'stopvariation', 0, 'seuildualitygap', tolerance, ...
        'seuildiffsigma', tolerance, 'seuildiffconstraint', tolerance, 'seuil', 0, 'seuilitermax', 10, ...
        'goldensearch_deltmax', 0.1, 'numericalprecision', 1e-8, 'firstbasevariable', 'first', ...
        'lambdareg', 1e-8);                                 % a ridge on the kernel matrix, which the gap sees
    [d, w, b, pos] = feval(solver, P.kernels, P.y(:), P.C, options, 0);
    weights = d(:);
    dual_coef = zeros(numel(P.y), 1);
    dual_coef(pos) = w;
    intercept = b;
    save('-v7', solution, 'dual_coef', 'weights', 'intercept');
end
