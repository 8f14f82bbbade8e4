-- strong_wolfe.lua - line search for the strong Wolfe conditions: sufficient decrease, and a slope
-- that has become small (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6).

local c1 <const>, c2 <const> = 1e-4, 0.9

-- Returns the position of the minimum, clamped to the bounds, of the cubic through two points with
-- given values and slopes.
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

-- Lengthens the step until a length satisfies the conditions, or until an interval contains such a
-- length. Returns the point at that length or nil, the interval or nil, and the number of lengths
-- that were tried after the first.
local function bracket(evaluate, start, t, most)
   local last, point, count = start, evaluate(t), 0
   while count < most do
      local higher = point.loss > start.loss + c1 * point.t * start.slope
         or count > 1 and point.loss >= last.loss
      if higher then return nil, {last, point}, count end
      if math.abs(point.slope) <= -c2 * start.slope then return point, nil, count end
      if point.slope >= 0 then return nil, {last, point}, count end
      local least = point.t + 0.01 * (point.t - last.t)
      local following = interpolate(last, point, least, point.t * 10)
      last = point
      point = evaluate(following)
      count = count + 1
   end
   return nil, {start, point}, count
end

-- Returns the index of the interval's end with the smaller loss, and the index of its other end.
local function order(ends)
   if ends[1].loss <= ends[2].loss then return 1, 2 end
   return 2, 1
end

-- Returns a length inside the interval: the cubic's minimum if it lies inside. If the minimum lies
-- outside or, for the second time, too close to an end, the length is a tenth of the interval away
-- from that end. The second result tells whether the length is too close to an end; the caller
-- passes it to the next call as `close_before`.
local function choose(ends, close_before)
   local t = interpolate(ends[1], ends[2])
   local from = math.min(ends[1].t, ends[2].t)
   local to = math.max(ends[1].t, ends[2].t)
   local margin = 0.1 * (to - from)
   if math.min(to - t, t - from) >= margin then return t, false end
   if not close_before and t < to and t > from then return t, true end
   return math.abs(t - to) < math.abs(t - from) and to - margin or from + margin, false
end

-- Narrows the interval until a length satisfies the conditions or a limit is reached. Returns the
-- end of the interval with the smaller loss, and the number of lengths that were tried.
local function zoom(evaluate, start, ends, count, most, smallest)
   local low, high = order(ends)
   local close = false
   while count < most and math.abs(ends[2].t - ends[1].t) * start.width >= smallest do
      local t, close_now = choose(ends, close)
      close = close_now
      local point = evaluate(t)
      count = count + 1
      if point.loss > start.loss + c1 * t * start.slope or point.loss >= ends[low].loss then
         ends[high] = point
         low, high = order(ends)
      else
         if math.abs(point.slope) <= -c2 * start.slope then return point, count end
         if point.slope * (ends[high].t - ends[low].t) >= 0 then ends[high] = ends[low] end
         ends[low] = point
      end
   end
   return ends[low], count
end

--- Looks for a step length along a direction.
---@param try fun(t: number): number, Tensor  loss and gradient at a length
---@param t number  the length to begin with
---@param direction Tensor  (n)
---@param loss number  the loss at length 0
---@param gradient Tensor  (n), at length 0
---@param slope number  the gradient along the direction at length 0
---@param smallest number  an interval is not divided if the largest element of the direction
--- differs by less than this between the interval's ends
---@param most integer  the limit for the number of lengths that are tried after the first one
---@return number loss
---@return Tensor gradient
---@return number t
---@return integer evaluations
return function(try, t, direction, loss, gradient, slope, smallest, most)
   local function evaluate(length)
      local value, found = try(length)
      return {t = length, loss = value, gradient = found, slope = found:dot(direction):item()}
   end
   local width = direction:abs():max():item()
   local start = {t = 0, loss = loss, gradient = gradient, slope = slope, width = width}
   local point, ends, count = bracket(evaluate, start, t, most)
   if not point then point, count = zoom(evaluate, start, ends, count, most, smallest) end
   return point.loss, point.gradient, point.t, count + 1
end
