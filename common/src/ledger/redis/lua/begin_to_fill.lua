-- Takes the duty to fill the offers of a target. Returns 1, or 0 while another worker has it or they are filled.
-- ARGV: name of this call, time in milliseconds
local taken = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
return (taken or redis.call('GET', KEYS[1]) == ARGV[1]) and 1 or 0
