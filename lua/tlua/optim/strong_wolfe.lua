-- strong_wolfe.lua - line search for the strong Wolfe conditions: sufficient decrease, and a slope
-- that has become small (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6).

local c1 <const>, c2 <const> = 1e-4, 0.9
local max_evaluations <const> = 25

-- The minimum, within bounds, of the cubic that two points' values and slopes determine.
local function interpolate(a, b, low, high)
   if not low then low, high = math.min(a.t, b.t), math.max(a.t, b.t) end
   local d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
   local square = d1 * d1 - a.slope * b.slope
   if square < 0 or square ~= square then return (low + high) / 2 end
   local d2 = square ^ 0.5
   local t
   if a.t <= b.t then
      t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
   else
      t = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
   end
   return math.min(math.max(t, low), high)
end

-- Lengthens the step until an interval holds a good one. Returns the good point, or the interval.
local function bracket(evaluate, start, t)
   local last, count = start, 0
   local point = evaluate(t)
   while true do
      count = count + 1
      local higher = point.loss > start.loss + c1 * point.t * start.slope
         or count > 1 and point.loss >= last.loss
      if higher then return nil, last, point, count end
      if math.abs(point.slope) <= -c2 * start.slope then return point, nil, nil, count end
      if point.slope >= 0 or count >= max_evaluations then return nil, last, point, count end
      local least = point.t + 0.01 * (point.t - last.t)
      local following = interpolate(last, point, least, point.t * 10)
      last = point
      point = evaluate(following)
   end
end

-- Narrows the interval. The better end is always `low`.
local function zoom(evaluate, start, low, high, count, smallest)
   if low.loss > high.loss then low, high = high, low end
   local close_before = false
   while count < max_evaluations do
      local from, to = math.min(low.t, high.t), math.max(low.t, high.t)
      if (to - from) * low.width < smallest then break end
      -- Too near to an end twice, or outside: a tenth of the interval away from it instead.
      local t = interpolate(low, high)
      local margin = 0.1 * (to - from)
      if math.min(to - t, t - from) < margin then
         if close_before or t >= to or t <= from then
            t = math.abs(t - to) < math.abs(t - from) and to - margin or from + margin
            close_before = false
         else
            close_before = true
         end
      else
         close_before = false
      end
      local point = evaluate(t)
      count = count + 1
      if point.loss > start.loss + c1 * t * start.slope or point.loss >= low.loss then
         high = point
         if low.loss > high.loss then low, high = high, low end
      else
         if math.abs(point.slope) <= -c2 * start.slope then return point, count end
         if point.slope * (high.t - low.t) >= 0 then high = low end
         low = point
      end
   end
   return low, count
end

--- Looks for a step length along a direction.
---@param try fun(t: number): number, Tensor  loss and gradient at a length
---@param t number  the length to begin with
---@param direction Tensor  (n)
---@param loss number  at length 0
---@param gradient Tensor  (n), at length 0
---@param slope number  the gradient along the direction at length 0
---@param smallest number  an interval smaller than this is not divided
---@return number loss
---@return Tensor gradient
---@return number t
---@return integer evaluations
return function(try, t, direction, loss, gradient, slope, smallest)
   local width = direction:abs():max():item()
   local function evaluate(length)
      local value, found = try(length)
      return {t = length, loss = value, gradient = found, slope = found:dot(direction):item(),
         width = width}
   end
   local start = {t = 0, loss = loss, gradient = gradient, slope = slope, width = width}
   local point, low, high, count = bracket(evaluate, start, t)
   if not point then point, count = zoom(evaluate, start, low, high, count, smallest) end
   return point.loss, point.gradient, point.t, count
end
