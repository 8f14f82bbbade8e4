-- Optimizer steps for many parameters at once. torch.optim is built on these operators.

op {[[_fused_step_(Tensor[] params, Tensor[] grads, Tensor[] states, Tensor[] clocks, string rule,
    float[] options, Tensor lr=nil, bool maximize=false, *, Tensor[] masters=nil,
    Tensor grad_scale=nil, Tensor found_inf=nil, Tensor clip=nil) -> self]],
    doc = [[One step of an optimizer's rule for all parameters. The rules, their options and their
    states are those of the classes of torch.optim, which call this: grads holds a gradient for each
    parameter, or nothing for the parameters' own (`grad`); states holds the first parameter's, then
    the second's, and so on, and so do clocks, of one float64 number each, which advance. lr, of one
    element, stands for the first option. masters are float32 copies that parameters are rounded
    from. Gradients are divided by grad_scale and multiplied by clip; where found_inf is not 0
    nothing changes. Of complex parameters each part is a real number of its own. Parameters,
    gradients and states may lie on several devices.]],
    composite = true, method = false, nondiff = "it changes parameters in place",
    any_device = {params = true, grads = true, states = true, clocks = true, lr = true,
                  masters = true,
                  grad_scale = true, found_inf = true, clip = true}}

takes_complex()
