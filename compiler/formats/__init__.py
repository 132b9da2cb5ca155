"""What files look like, for those who read them (`frontends`), write them (`targets`) or run what came from them (`runtime`)."""
