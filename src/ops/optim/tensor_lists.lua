-- Operators on all gradients of a model at once, which compute the norm of the gradients and scale
-- them.

local lists = {tensors = true}

op {"_total_norm(Tensor[] tensors, Number norm_type=2) -> Tensor", any_device = lists,
    doc = [[Returns the norm of all elements of floating tensors, on the first one's device: float64
    if one of them is float64, else float32. norm_type is an order of norm.]],
    composite = true, method = false, out = false,
    nondiff = "for gradients; torch.norm has a derivative",
    examples = {"{T(3), T(2, 2)}", "{T(3), T(2, 2)}, 1", "{T(3), T()}, math.huge", "{T(3)}, 3"}}
op {[[_clip_numbers(Tensor[] tensors, float max_norm, float norm_type=2, Tensor grad_scale=nil)
      -> (Tensor norm, Tensor factor, Tensor found_inf)]],
    doc = [[Returns the numbers by which an optimizer's step clips its gradients, without
    synchronizing: their norm, as _total_norm returns it, divided by grad_scale; max_norm / (norm +
    1e-6), at most 1; and, as float32, 1 if an element is infinite or NaN, else 0. norm_type is
    above 0.]],
    any_device = {tensors = true, grad_scale = true},
    composite = true, method = false, out = false, nondiff = "for gradients",
    examples = {"{T(3), T(2, 2)}, 1.0", "{T(3), T()}, 0.5, math.huge", "{T(3)}, 9.0, 3.0"}}
op {"_foreach_mul_(Tensor[] tensors, Tensor scale) -> self",
    doc = [[Multiplies floating tensors by a number in a float32 or float64 tensor, without
    synchronizing.]],
    composite = true, method = false, nondiff = "for gradients, in place",
    any_device = {tensors = true, scale = true}}
op {[[_amp_foreach_non_finite_check_and_unscale_(Tensor[] tensors, Tensor found_inf,
      Tensor inv_scale) -> self]],
    doc = [[Multiplies floating tensors by inv_scale; found_inf becomes 1 if an element is infinite
    or NaN. Both are numbers in tensors on the tensors' device, found_inf float32.]],
    composite = true, method = false, nondiff = "for gradients, in place"}
op {[[_amp_update_scale_(Tensor self, Tensor growth_tracker, Tensor found_inf, float growth_factor,
      float backoff_factor, int growth_interval) -> self]],
    doc = [[Updates a loss scale after a step, on its device: multiplies it by backoff_factor if
    found_inf is not 0, else by growth_factor at every growth_interval-th step, unless the product
    is infinite. growth_tracker counts the steps since the last change. self, found_inf (float32)
    and growth_tracker (int32) hold one number each.]],
    composite = true, method = false, nondiff = "in place"}

takes_complex "_total_norm _clip_numbers _foreach_mul_"
